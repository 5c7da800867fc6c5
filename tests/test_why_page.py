"""docs/why.md: its example is what the commands print, and its table has every cause. `--write` renews the example."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from loopbench.cli.main import main
from loopbench.metrics.trajectory.divergence import Cause

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "why.md"
EXAMPLE = re.compile(r"(<!-- example: .*? -->\n).*?(<!-- /example -->)", re.DOTALL)
FOLDER = re.compile(r"runs/\d{8}-\d{6}-\w+-[0-9a-f]{4}")


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Of the first block of the page, without `loopbench`."""
    found = re.search(r"```sh\n(.*?)```", text(), re.DOTALL)
    assert found is not None
    return [shlex.split(line)[1:] for line in found[1].splitlines()]


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def said(folder: Path) -> str:
    """What the last of the commands prints, the run's name aside."""
    out = ""
    with inside(folder):
        for words in commands():
            extra = ["--no-mlflow", "--quiet"] if words[0] == "compare" else []
            sys.argv = ["loopbench", *words, *extra]
            heard, unheard = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(unheard), contextlib.suppress(SystemExit):
                main()
            out = heard.getvalue()
    return "\n".join(line.rstrip() for line in FOLDER.sub("RUN", out).splitlines()).strip()


@pytest.mark.thorough
def test_the_example_is_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "argv", sys.argv)
    found = EXAMPLE.search(text())
    assert found is not None
    assert f"```text\n{said(tmp_path)}\n```" in found[0]


def test_every_cause_has_its_row():
    rows = re.findall(r"^\| ([a-z ]+?) \| ", text(), re.MULTILINE)
    assert [row for row in rows if row != "cause"] == list(get_args(Cause))


def write() -> None:
    """Renew the example."""
    with tempfile.TemporaryDirectory() as folder:
        made = said(Path(folder))
    PAGE.write_text(EXAMPLE.sub(lambda found: f"{found[1]}\n```text\n{made}\n```\n\n{found[2]}", text()), encoding="utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    write()
