"""What the project weighs. `python -m tests.weight` prints the table: when taking weight off began, now, at most, and at the end.

`--write` lowers what is allowed at most to what there is now; nothing raises it but a hand.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from typer.main import get_command

from tests.syntax import nodes_of, parsed
from whichloop.cli.main import app

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
FROZEN = "src/whichloop/datasets/snapshots/"
"""Tasks that a digest holds; they count as data, not as source."""
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class Weight(NamedTuple):
    """One thing that is counted."""

    began: float
    """When taking weight off began, on 2026-11-28."""
    most: float
    """What is allowed now; it only falls."""
    end: float
    """What is aimed at."""


def weights() -> dict[str, Weight]:
    return {name: Weight(**kept) for name, kept in json.loads(FILE.read_text("utf-8")).items()}


# --- files ---


@cache
def tracked(below: str) -> tuple[Path, ...]:
    """Text files that git keeps, or would keep at the next `git add`, without links."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", below]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith(FROZEN))
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def python_files(below: str) -> list[Path]:
    return [path for path in tracked(below) if path.suffix == ".py"]


def lines(paths: list[Path] | tuple[Path, ...]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def nodes(*kinds: type[ast.AST]) -> int:
    return sum(isinstance(node, kinds) for path in python_files("src") for node in nodes_of(parsed(path)))


# --- docs ---


def pages() -> list[str]:
    return [path.read_text("utf-8") for path in (ROOT / "README.md", *tracked("docs")) if path.suffix == ".md"]


def words_a_sentence() -> float:
    """Mean over the sentences of prose: no code, tables, headings or comments."""
    found: list[int] = []
    for page in pages():
        text = re.sub(r"<!--.*?-->", "", FENCE.sub("", page), flags=re.DOTALL)
        prose = "\n".join("" if re.match(r"\s*(\||#|    )", line) else line for line in text.splitlines())
        for paragraph in re.split(r"\n\s*\n|\n\s*[-*\d]+\.? ", prose):
            plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", paragraph))
            found += [count for each in re.split(r"(?<=[.!?])\s+", plain) if (count := len(re.findall(r"\w[\w'’.-]*", each))) > 1]
    return round(sum(found) / len(found), 1)


def share_of_code() -> float:
    """Percent of the lines of docs that stand in fenced code."""
    code = sum(len(block.splitlines()) for page in pages() for block in FENCE.findall(page))
    return round(100 * code / sum(len(page.splitlines()) for page in pages()), 1)


# --- commands ---


@cache
def options() -> Mapping[str, int]:
    """Options of each command, `--help` left out."""
    found: dict[str, int] = {}

    def visit(command: object, name: str) -> None:
        for part in (below := getattr(command, "commands", {})):
            visit(below[part], f"{name} {part}".strip())
        if not below:
            context = command.make_context(name, [], resilient_parsing=True)  # type: ignore[attr-defined]  # a click command
            parameters = context.command.get_params(context)
            found[name] = sum(each.param_type_name == "option" and each.name != "help" for each in parameters)

    visit(get_command(app), "")
    return found


# --- a trial ---

TRACED = """
import sys, tempfile
from pathlib import Path
from whichloop.experiments.compare.run import prepare
from whichloop.experiments.compare.run import run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

ran = set()


def watch(frame, event, argument):
    if frame.f_code.co_name != "<module>" and "whichloop" in frame.f_code.co_filename:
        ran.add(frame.f_code.co_filename)


with tempfile.TemporaryDirectory() as folder:
    experiment = prepare(CompareConfig(loops=("bare",), suite="arithmetic", tasks=1, runs=Path(folder), mlflow=False))
    sys.setprofile(watch)
    run(experiment, Unwatched())
    sys.setprofile(None)
print(len(ran))
"""
"""Begin and end of the run's folder included; neither imports nor what prepares the run."""


def files_of_a_trial() -> int:
    done = subprocess.run([sys.executable, "-c", TRACED], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


COUNTS: Mapping[str, Callable[[], float]] = {
    "lines of src": lambda: lines(python_files("src")),
    "characters of src": lambda: sum(len(path.read_text("utf-8")) for path in tracked("src")),
    "files of src": lambda: len(python_files("src")),
    "functions of src": lambda: nodes(ast.FunctionDef, ast.AsyncFunctionDef),
    "classes of src": lambda: nodes(ast.ClassDef),
    "lines of tests": lambda: lines(python_files("tests")),
    "words of docs": lambda: sum(len(page.split()) for page in pages()),
    "words of README": lambda: len((ROOT / "README.md").read_text("utf-8").split()),
    "words a sentence": words_a_sentence,
    "commands": lambda: len(options()),
    "options": lambda: sum(options().values()),
    "options of compare": lambda: options()["compare"],
    "files that a trial of bare runs code in": files_of_a_trial,
    "lines of benchmarks": lambda: lines(tracked("benchmarks")),
}


def table() -> str:
    width = max(map(len, COUNTS))
    head = f"{'':{width}}  {'2026-11-28':>10} {'now':>10} {'at most':>10} {'end':>10}"
    rows = [
        f"{name:{width}}  {each.began:>10,} {COUNTS[name]():>10,} {each.most:>10,} {each.end:>10,}"
        for name, each in weights().items()
    ]
    return "\n".join([head, *rows, f"{'percent of code in docs':{width}}  {17:>10,} {share_of_code():>10,} {'':>10} {'35':>10}"])


def lower() -> None:
    kept = {name: each._replace(most=min(each.most, COUNTS[name]()))._asdict() for name, each in weights().items()}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        lower()
    print(table())
