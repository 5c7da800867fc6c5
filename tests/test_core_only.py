"""What works with the packages of the core alone, and how the rest says which extra it needs."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable

import pytest
from packaging.requirements import Requirement

from tests import core_only
from whichloop._extras import EXTRA_OF, MissingExtra, how_to_install, needed_by

SOURCE = core_only.ROOT / "src"
NEEDS_AN_EXTRA = re.compile(
    r"whichloop\.(dspy_seam|loops\.(react_extract|stateless|spans)|models\.(real|probe|local\.(model|opening))$|runs\.real_models|reports\.(frame$|mlflow)"
    r"|api\.carry_out_search|cli\.(searching|catalogue\.optimizers)$|experiments\.optimize\.(built_in|compiling|locked_test|optimizer|prepare|proposals|raising|rollouts|run)"
    r"|frameworks\.wiring|models\.server\.mcp$|datasets\.importing\.mcp_client$)"
)
IMPORT_ALL = """
import importlib, json, sys
from pathlib import Path

source, failed = Path(sys.argv[1]), {}
for file in sorted((source / "whichloop").rglob("*.py")):
    parts = file.relative_to(source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if not name.endswith("__main__") and ".wiring" not in name:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            failed[name] = error.name
print(json.dumps(failed))
"""
THREE = ("--loop", "bare", "--loop", "finish", "--loop", "phased")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    core_only.make(folder, [*core_only.project()["dependencies"], "pytest"])
    return folder


COMPARED = ("compare", *THREE, "--tasks", "3", "--profile", "flaky-tools", "--mlflow")
QUESTIONS = (("report", "--why"), ("show", "latest"), ("report", "--size"))
BLESSED = ("gate", "latest", "--bless", "--output", "baseline.json")
GATED = ("gate", "latest", "--baseline", "baseline.json")
ABLATED = ("compare", "--loop", "finish", "--vary", "parse_retries=0,2", "--profile", "flaky-format", "--tasks", "8", "-v")
REFUSED = {
    ("compare", "--loop", "stateless"): ("loop stateless needs dspy", "dspy"),
    ("compare", "--loop", "bare", "--model", "openai/some"): ("model openai/some needs dspy", "dspy"),
    ("optimize", "--optimizer", "MIPROv2(num_trials=3)"): ("optimizer MIPROv2 needs dspy", "optimize"),
    ("optimize", "--optimizer=GEPA"): ("optimizer GEPA needs dspy", "dspy"),
    ("optimize", "--config", "search.toml"): ("optimizer miprov2 needs dspy", "optimize"),
    ("list", "optimizers"): ("this command needs dspy", "dspy"),
    ("check", "suite", "parquet(data=rows.parquet)"): ("a Parquet file needs pyarrow", "analysis"),
}
"""Commands, what the error of each says, and the extra that is enough at once."""
LISTED = ("list", "loops")
STARRED = ("-c", "from whichloop import *; from whichloop.loops import *; print('Bare' in vars(), 'Stateless' in vars())")
IMPORTED = ("-c", IMPORT_ALL, str(SOURCE))
PYTHON = {
    "import whichloop.loops.react_extract": "whichloop.loops.react_extract needs dspy",
    "import whichloop; whichloop.Stateless": "whichloop.Stateless needs dspy",
    "import whichloop; whichloop.optimize(['bare'], 'MIPROv2')": "optimizer MIPROv2 needs dspy",
    "import whichloop; whichloop.optimize(['bare'], 'GEPA')": "optimizer GEPA needs dspy",
    "import whichloop; whichloop.compare(loops=['bare'], tasks=2).trials": "a DataFrame needs pandas",
}
"""Python code, and what its error says."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where the commands run: those that compare and ask about it, Python code, and those that are refused."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("compared", "python", "refused", "said"):
        (folder / name).mkdir()
    (folder / "refused" / "rows.parquet").write_bytes(b"PAR1")
    (folder / "refused" / "search.toml").write_text("[search]\noptimizer = 'miprov2(num_trials=3)'\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def ended(packages, folders):
    """What each command came to, by its words."""
    python = [LISTED, IMPORTED, STARRED, *(("-c", code) for code in PYTHON)]
    places: dict[str, Iterable[tuple[str, ...]]] = {
        "compared": [COMPARED, *QUESTIONS, BLESSED, GATED, ABLATED], "python": python, "refused": REFUSED,
    }  # fmt: skip
    commands = [(folders / place, words) for place, several in places.items() for words in several]
    return {tuple(done.args): done for done in core_only.run_each(packages, SOURCE, commands, folders / "said")}


def test_the_core_has_none_of_the_packages_of_extras(packages):
    assert not {package for package in EXTRA_OF if (packages / package).exists()}


def test_only_modules_that_an_extra_is_for_cannot_be_imported(ended):
    done = ended[IMPORTED]
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    assert {name: package for name, package in failed.items() if package not in EXTRA_OF} == {}
    assert [name for name in failed if not NEEDS_AN_EXTRA.match(name)] == []
    assert {"whichloop.loops.stateless", "whichloop.reports.mlflow"} <= failed.keys()


def test_a_comparison_its_questions_its_page_its_gate_and_an_ablation(ended, folders):
    for words in (COMPARED, *QUESTIONS, BLESSED, GATED, ABLATED):
        assert ended[words].returncode == 0, ended[words]
        assert not re.search("Traceback|Exception ignored", ended[words].stderr)  # not even at the end of the process
        assert ended[words].stdout
    unlogged = r"nothing was logged to MLflow, which is not installed: pip install \S*whichloop\[mlflow\]"
    assert [bool(re.search(unlogged, ended[words].stderr)) for words in (COMPARED, ABLATED)] == [True, False]
    assert list(folders.glob("compared/runs/*/report.html"))
    assert ended[GATED].stdout.startswith("pass: identical")
    assert "odds ratio" in ended[ABLATED].stdout


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_needs_an_extra_says_which_in_one_line(ended, folders, words):
    done = ended[words]
    assert done.returncode == 2, done
    what, extra = REFUSED[words]
    assert f"error: {what}, which is not installed: pip install " in done.stderr
    assert re.findall(r"\[(\w+)\]", done.stderr)[-1] == extra
    assert "Traceback" not in done.stderr
    assert not list(folders.glob("refused/runs/*"))


def test_the_list_of_loops_says_what_each_needs_and_a_star_gives_what_is_there(ended):
    done = ended[LISTED]
    assert done.returncode == 0, done.stderr
    listed = done.stdout
    assert re.search(r"^react_extract\s+needs dspy, which is not installed: pip install", listed, re.MULTILINE)
    assert re.search(r"^bare\s+Design 4", listed, re.MULTILINE)
    assert ended[STARRED].stdout == "True False\n", ended[STARRED].stderr


@pytest.mark.parametrize("code", PYTHON)
def test_python_names_the_extra_too(ended, code):
    last = ended["-c", code].stderr.strip().splitlines()[-1]
    assert re.search(rf": {re.escape(PYTHON[code])}, which is not installed: pip install ", last), last


# --- the command that installs an extra ---


@pytest.mark.parametrize("package", sorted(EXTRA_OF))
def test_every_extra_that_is_named_exists_and_has_the_package(package):
    extras = core_only.project()["optional-dependencies"]
    assert EXTRA_OF[package] in extras
    naming = [extra for extra, lines in extras.items() if any(Requirement(line).name == package for line in lines)]
    assert not naming or EXTRA_OF[package] in naming
    assert f"[{EXTRA_OF[package]}]" in how_to_install(package)


def test_an_import_that_fails_for_another_reason_stays_what_it_is():
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as caught, needed_by("this"):
        importlib.import_module("no_such_module")
    assert not isinstance(caught.value, MissingExtra)
