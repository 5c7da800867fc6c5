"""docs/upgrades.md: its examples are what the commands print, with both versions of a framework. `--write` renews them.

python -m whichloop install, as the page says it; then: python -m tests.docs.test_upgrades_page --write
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, RUN_FOLDER, output_of, preformatted, write_output
from whichloop.frameworks.installing import read_release

PAGE = DOCS / "upgrades.md"
EXAMPLES = ("openai_agents", "langgraph")
"""The frameworks of the page's examples, in its order."""


def commands(framework: str) -> list[list[str]]:
    """Return the commands of a framework's example, without `whichloop`."""
    found = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[EXAMPLES.index(framework)]
    return [shlex.split(line, comments=True)[1:] for line in found.splitlines()]


def missing(framework: str) -> list[str]:
    """Return the releases of a framework's example that are not installed."""
    install, *_ = commands(framework)
    return [name for name in install[2:] if not read_release(name).folder.exists()]


def printed(framework: str, folder: Path) -> str:
    """Return what the example's last command prints, with the run's name taken out."""
    _, *runs = commands(framework)
    return "\n".join(line.rstrip() for line in RUN_FOLDER.sub("RUN", output_of(runs, folder)).splitlines())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", EXAMPLES)
def test_the_gate_finds_an_upgrade_that_keeps_tools_errors_from_the_model(framework, tmp_path, monkeypatch):
    if lacking := missing(framework):
        pytest.skip(f"not installed: whichloop install {' '.join(lacking)}")
    assert printed(framework, tmp_path) == preformatted(PAGE, framework)


@pytest.mark.parametrize(("framework", "cause"), [("openai_agents", "error not shown"), ("langgraph", "crash")])
def test_an_example_shows_the_regression_with_its_cause(framework, cause):
    first, *others = preformatted(PAGE, framework).splitlines()
    assert first.startswith(f"regression: {framework}@{read_release(framework).version}/")
    assert any(line.startswith("Tasks") and f"({cause} " in line for line in others)


if __name__ == "__main__" and "--write" in sys.argv:
    if lacking := [name for example in EXAMPLES for name in missing(example)]:
        sys.exit(f"not installed: whichloop install {' '.join(dict.fromkeys(lacking))}")
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as made_in:
            write_output(PAGE, example, printed(example, Path(made_in)))
