"""`whichloop init`: a first project, whose files work as they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop._extras import is_installed
from whichloop.protocol.names import parse_spec, program_spec
from whichloop.runs.config import IfAbsent
from whichloop.runs.registry import converted_options, find
from whichloop.text.output import terminal_safe

from .options import OptionGroup, with_options

GITIGNORE, PYPROJECT = KEPT = (".gitignore", "pyproject.toml")
"""Files that stay as they are where there are some."""
PRICES: Mapping[str, float] = {
    "lamp": 39.9, "chair": 120.0, "desk": 310.0, "shelf": 84.5, "rug": 65.0, "clock": 27.3,
    "mirror": 58.2, "stool": 44.0, "sofa": 799.0, "bench": 132.6, "vase": 18.4, "curtain": 36.7,
}  # fmt: skip
STOCK: Mapping[str, int] = {
    "lamp": 25, "chair": 4, "desk": 7, "shelf": 12, "rug": 9, "clock": 31,
    "mirror": 6, "stool": 18, "sofa": 2, "bench": 5, "vase": 40, "curtain": 14,
}  # fmt: skip

SETTINGS = """\
# Settings of `whichloop compare --config whichloop.toml`; a flag on the command line overrides them.
loops = [{loop}, "{other}"] # yours and others: "my_package.loops:Mine", 'finish(parse_retries=0)'
suite = "jsonl"
data = "loop_tasks.jsonl" # tasks of your own, with plans for the scripted model
tools = "loop_tools" # the tools that the tasks need
profiles = ["flaky-tools", "flaky-format"] # `whichloop list profiles` has more
repeats = 3
"""

TOOLS = '''\
"""The tools of the example tasks. The model sees each tool's name, its docstring and the types of its arguments."""

PRICES = {prices}
STOCK = {stock}


def price(item: str) -> float:
    """Price of one item, in euros."""
    return PRICES[item]


def stock(item: str) -> int:
    """How many of an item are in stock."""
    return STOCK[item]


def multiply(a: float, b: float) -> float:
    """a times b, to the cent."""
    return round(a * b, 2)


def add(a: float, b: float) -> float:
    """The sum of a and b, to the cent."""
    return round(a + b, 2)


TOOLS = [price, stock, multiply, add]
'''

TEST = '''\
"""Fails where the loop got worse than its baseline: `python -m pytest --loop-bless` writes the baseline, commit it."""

import pytest

pytestmark = pytest.mark.whichloop_gate(suite="jsonl", data="loop_tasks.jsonl", tools="loop_tools", repeats=3)


@pytest.mark.parametrize("profile", ["flaky-tools", "flaky-format"])
def test_the_loop_is_no_worse_than_its_baseline(whichloop_gate, profile):
    whichloop_gate({agent}, profile=profile, baseline=f"tests/baselines/{{profile}}.json")
'''

PROJECT = """\
[tool.whichloop] # what `whichloop gate` may run of yours: a baseline names it, and never decides it
loop = [{loop}]
allow = ["loop_tools"]
"""

RECIPE = """\
# whichloop is installed from ./whichloop, such as a git submodule that is pinned to a commit.
name: loops
on: [pull_request]
jobs:
  gate:
    runs-on: ubuntu-latest
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
        with: {submodules: true}
      - uses: actions/setup-python@v5
        with: {python-version: "3.11"}
      - run: pip install --constraint whichloop/constraints.txt ./whichloop pytest
      - run: python -m pytest tests/test_loops.py --loop-runs loop-runs
      - uses: actions/upload-artifact@v4 # with these, `whichloop show` and `why` work at home
        if: always()
        with: {name: loop-runs, path: loop-runs}
"""


IGNORED = """\
# what whichloop and Python write when they run
runs/
loop-runs/
mlflow.db
mlruns/
__pycache__/
"""


def write_project(folder: Path, loop: str, program: str | None = None) -> tuple[Path, ...]:
    """Write the files of a first project around a loop, or a program instead, and return their paths below the folder.

    A `.gitignore` or a `pyproject.toml` that is there stays as it is. Raises ValueError for a program that cannot be read, and if
    the folder is no directory or another file exists already; nothing is written then.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a directory")
    quoted = json.dumps(loop if program is None else program_spec(program), ensure_ascii=False)
    is_finish = program is None and loop.partition("(")[0].strip() == "finish"
    agent = quoted if program is None else f"program={json.dumps(program, ensure_ascii=False)}"
    files = {
        "whichloop.toml": SETTINGS.format(loop=quoted, other="bare" if is_finish else "finish"),
        "loop_tools.py": TOOLS.format(prices=json.dumps(PRICES), stock=json.dumps(STOCK)),
        "loop_tasks.jsonl": "".join(f"{json.dumps(task)}\n" for task in _tasks()),
        "tests/test_loops.py": TEST.format(agent=agent),
        ".github/workflows/loops.yml": RECIPE,
        PYPROJECT: PROJECT.format(loop=quoted),
        GITIGNORE: IGNORED,
    }
    files = {name: text for name, text in files.items() if name not in KEPT or not (folder / name).exists()}
    taken = [str(folder / name) for name in files if (folder / name).exists()]
    if taken:
        raise ValueError(f"{', '.join(taken)}: already there; nothing was written")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    return tuple(map(Path, files))


def _tasks() -> Iterator[dict[str, Any]]:
    """Yield a task about each item's stock, and one about two items, with the calls that solve them."""
    items = list(PRICES)
    for number, item in enumerate(items):
        worth = round(PRICES[item] * STOCK[item], 2)
        calls = [
            _call("price", {"item": item}, f"Look up the price of a {item}.", "unit"),
            _call("stock", {"item": item}, f"Look up how many there are of {item}.", "count"),
            _call("multiply", {"a": {"$ref": "unit"}, "b": {"$ref": "count"}}, "Multiply the two.", "worth"),
        ]
        text = f"What are all items of kind {item} in stock worth together, in euros?"
        yield _task(f"worth-{item}", text, worth, calls, {"$ref": "worth"})
        other, many = items[number - 1], number % 4 + 2
        calls = [
            _call("price", {"item": item}, f"Look up the price of a {item}.", "first"),
            _call("multiply", {"a": {"$ref": "first"}, "b": many}, f"Take it {many} times.", "several"),
            _call("price", {"item": other}, f"Look up the price of a {other}.", "second"),
            _call("add", {"a": {"$ref": "several"}, "b": {"$ref": "second"}}, "Add the two.", "sum"),
        ]
        total = round(round(PRICES[item] * many, 2) + PRICES[other], 2)
        text = f"What do {many} of the kind {item} and one of the kind {other} cost together, in euros?"
        yield _task(f"order-{item}", text, total, calls, {"$ref": "sum"})


def _call(tool: str, arguments: Mapping[str, Any], goal: str, name: str) -> dict[str, Any]:
    return {"id": name, "tool": tool, "arguments": arguments, "goal": goal}


def _task(name: str, text: str, expected: float, calls: list[dict[str, Any]], answer: Any) -> dict[str, Any]:
    return {"id": name, "question": text, "answer": expected, "plan": {"calls": calls, "answer": answer}}


class InitOptions(OptionGroup):
    folder: Annotated[Path, typer.Argument()] = Path()
    """Folder of the project; it is made if it does not exist."""
    loop: str = "bare"
    """Loop that the project is about, a built-in name or `my_package.loops:Mine`."""
    program: Annotated[str | None, IfAbsent("none")] = None
    """Program of your own that the project is about instead: a command line, `my.module:function` or `FILE.py:function`."""


@with_options()
def init(options: InitOptions) -> None:
    """Write settings, example tasks with plans, tools, a test and a recipe for CI into a project."""
    if options.program is not None and options.loop != "bare":
        raise ValueError("--loop and --program: give one of them")
    loop = parse_spec(options.loop)
    if ":" not in loop.name:
        converted_options(find("loop", loop.name), loop.options, f"loop {loop.name}")
    written = write_project(options.folder, options.loop, options.program)
    for name in written:
        print(f"wrote {terminal_safe(str(options.folder / name))}")
    print("next:")
    if Path(PYPROJECT) not in written:
        print(f'  add to {PYPROJECT}: [tool.whichloop] with loop = ["…"] and allow = ["loop_tools"], for `whichloop gate`')
    if options.folder != Path():
        print(f"  cd {shlex.quote(str(options.folder))}")
    print("  whichloop compare --config whichloop.toml")
    if not is_installed("pytest"):
        print("  pip install pytest                                   # which tests/test_loops.py needs")
    print("  python -m pytest --loop-bless tests/test_loops.py    # writes tests/baselines/; commit them")
    print("  python -m pytest tests/test_loops.py                 # fails once the loop gets worse")
