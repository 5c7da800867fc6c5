"""docs/gate.md: its example is what the commands print. `--write` renews it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, RUN_FOLDER, commands, output_of, preformatted, write_output

PAGE = DOCS / "gate.md"


def printed(folder: Path) -> str:
    """Return what the page's last command prints, with the run's name taken out."""
    return RUN_FOLDER.sub("RUN", output_of(commands(PAGE), folder))


@pytest.mark.thorough
def test_the_example_is_what_the_commands_print(tmp_path):
    assert printed(tmp_path) == preformatted(PAGE, "example")


def test_the_example_shows_a_regression_of_the_loop_that_its_command_names():
    *_, last = commands(PAGE)
    loop = last[last.index("--loop") + 1]
    assert preformatted(PAGE, "example").startswith(f"regression: {loop}/")


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        write_output(PAGE, "example", printed(Path(made_in)))
