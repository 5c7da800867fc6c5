"""docs/notebooks.md: its code runs, and prints what it says. `python -m tests.docs.test_notebooks_page --write` renews that."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

import whichloop
from tests.prepared import said_by

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "notebooks.md"
OUTPUT = re.compile(r"(<!-- output: .*? -->\n).*?(<!-- /output -->)", re.DOTALL)


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def printed(folder: Path) -> str:
    """Return what the code below the page's command prints about the run that it makes."""
    (command,) = re.findall(r"```sh\nwhichloop (.*?)\n```", text())
    at_home = {"PATH": os.defpath, "HOME": str(folder)}
    said_by(folder, at_home, "-m", "whichloop", *shlex.split(command), "--quiet")
    code = re.findall(r"```python\n(.*?)```", text().partition("```sh")[2], re.DOTALL)
    (folder / "cells.py").write_text("\n".join(code), encoding="utf-8")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as said, warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path("cells.py")
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


def shown(output: str) -> str:
    return f"\n```text\n{output}```\n\n"


TABLES = ("trials", "arms", "pairs", "tasks", "effects")


@pytest.mark.thorough
def test_the_code_prints_what_the_page_says(tmp_path):
    found = OUTPUT.search(text())
    assert found is not None
    assert shown(printed(tmp_path)) in found[0]

    run = whichloop.load("latest", runs=tmp_path / "runs")
    rows = dict(re.findall(r"^\| `run\.(\w+)[^|]*\|[^|]*\|(.*)\|$", text(), re.MULTILINE))
    assert rows.keys() == set(TABLES)
    for name, told in rows.items():
        assert set(re.findall(r"`([a-z_]+)`", told)) <= set(getattr(run, name).columns)
    assert all(hasattr(run, name) for name in re.findall(r"`run\.(\w+)", text()))


def renew() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = shown(printed(Path(folder)))
    PAGE.write_text(OUTPUT.sub(lambda old: old[1] + made + old[2], text()), encoding="utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    renew()
