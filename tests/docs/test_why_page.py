"""docs/why.md: its example is what the commands print, and its table has every cause. `--write` renews the example."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import get_args

import pytest

from tests.docs.pages import DOCS, RUN_FOLDER, commands, output_of, preformatted, write_output
from whichloop.metrics.trajectory.causes import MEANINGS, Cause

PAGE = DOCS / "why.md"


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def printed(folder: Path) -> str:
    """Return what the page's commands print, with the run's name taken out."""
    return RUN_FOLDER.sub("RUN", output_of(commands(PAGE), folder))


@pytest.mark.thorough
def test_the_example_is_what_the_commands_print(tmp_path):
    assert printed(tmp_path) == preformatted(PAGE, "example")


def test_every_cause_has_its_row():
    table = text().partition("## Causes")[2].partition("\n\n|")[2].partition("\n\n")[0]
    rows = re.findall(r"^\|? ([a-z ]+?) \| (.*) \|$", table, re.MULTILINE)
    assert {cause: means for cause, means in rows if cause != "cause"} == dict(MEANINGS)
    assert list(MEANINGS) == list(get_args(Cause))


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        write_output(PAGE, "example", printed(Path(made_in)))
