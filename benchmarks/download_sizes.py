"""What installing whichloop downloads, with each extra: wheels for this machine, with the versions in constraints.txt.

python benchmarks/download_sizes.py [--write]

pip resolves each set by itself, and downloads it into a folder that is removed afterwards. --write renews the table in
docs/start.md; without it the table goes to stdout, as Markdown.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pages import write_block

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "start.md"
ADDS = {
    "": "`bare`, `finish`, `phased`, your own loops and programs; profiles, suites, questions, page, gate, `serve`",
    "analysis": "pandas DataFrames, Parquet files, the odds ratios of `ablate`",
    "dspy": "the loops `react_extract` and `stateless`, real models by name, `optimize`",
    "optimize": "the same, and what the optimizer MIPROv2 needs",
    "mlflow": "runs and searches in MLflow",
    "all": "all of the above",
    "huggingface": "data sets of Hugging Face as suites",
    "local": "`--model local`; its weights, a package of their own, come on top ([how](models.md#a-model-in-the-box))",
    "postgresql": "a PostgreSQL store of MLflow",
    "ray": "`--engine ray`, trials on many machines",
}
"""Extra → what it adds; those for work on whichloop itself are left out."""
LARGEST = 3
"""Packages of the core that the sentence below the table names."""


def downloaded(extra: str) -> dict[str, float]:
    """Return package → megabytes, of what an empty environment downloads."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = _needed(project, extra)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", folder]
        subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt"), *wanted], check=True, stderr=subprocess.DEVNULL)
        return {file.name.partition("-")[0]: file.stat().st_size / 1e6 for file in Path(folder).iterdir()}


def _needed(project: dict[str, dict[str, list[str]]], extra: str) -> list[str]:
    """Return the requirements of the core with an extra, those of extras inside it written out."""
    found = list(project["dependencies"])
    for line in project["optional-dependencies"][extra] if extra else ():
        inner = re.fullmatch(r"whichloop\[(.+)\]", line)
        found += [need for name in inner[1].split(",") for need in _needed(project, name)] if inner else [line]
    return sorted(set(found))


def table() -> str:
    """Return a row for the core and for each extra, and what most of the core is."""
    core: dict[str, float] = {}
    lines = ["| extra | adds | megabytes | packages |", "|---|---|---:|---:|"]
    for extra, adds in ADDS.items():
        packages = downloaded(extra)
        core = core or packages
        lines.append(f"| {f'`{extra}`' if extra else '(none)'} | {adds} | {sum(packages.values()):.0f} | {len(packages)} |")
    return "\n".join([*lines, "", of_the_core(core)]) + "\n"


def of_the_core(packages: Mapping[str, float]) -> str:
    """Return a sentence on what the megabytes of the core are. `packages`: package → megabytes."""
    largest = sorted(packages, key=lambda name: -packages[name])[:LARGEST]
    shares = [f"{name} takes {packages[name]:.0f}" if name == largest[0] else f"{name} {packages[name]:.0f}" for name in largest]
    return (
        f"Of the {sum(packages.values()):.0f} megabytes of the core, {', '.join(shares)}; "
        f"its {len(packages) - LARGEST} other packages share the rest. "
        "Exact tests and intervals need SciPy and NumPy, and traces are kept compressed."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    made = table()
    if parser.parse_args().write:
        write_block(PAGE, "sizes", made)
    print(made)


if __name__ == "__main__":
    main()
