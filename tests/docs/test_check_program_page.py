"""docs/check-program.md: its agent does what the page says, its faults are those of the code, and its test passes.

`python -m tests.docs.test_check_program_page --write` renews the blocks.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.pages import block
from tests.docs.pages import DOCS, commands, output_of, preformatted, write_output
from tests.prepared import said_by
from whichloop.checks.any import told
from whichloop.checks.program import FAULTS, OUTCOMES

PAGE = DOCS / "check-program.md"
FILES = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
CHECK = ["check", "program", "my_agent.py:solve"]


def put_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


def faults_table() -> str:
    rows = [f"| `{fault.name}` | {fault.text} |" for fault in FAULTS]
    return "\n".join(["| fault | what happens |", "|---|---|", *rows])


@pytest.mark.slow
def test_the_agent_does_what_the_page_says(tmp_path: Path) -> None:
    put_files(tmp_path)
    assert output_of([CHECK], tmp_path) == preformatted(PAGE, "outcomes")


def test_the_agent_is_short() -> None:
    assert len([line for line in FILES["my_agent.py"].splitlines() if line.strip()]) == 12


def test_every_fault_and_outcome_is_on_the_page() -> None:
    assert block(PAGE, "faults").strip() == faults_table()
    assert all(f"| `{outcome}` |" in PAGE.read_text("utf-8") for outcome in OUTCOMES)


def test_the_commands_of_the_page_check_programs() -> None:
    assert all(
        words[0] == "check" and told([word for word in words[1:] if word != "--"])[0] == "program" for words in commands(PAGE)
    )


@pytest.mark.slow
def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    put_files(tmp_path)
    said_by(tmp_path, os.environ, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_agent.py")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        put_files(Path(folder))
        write_output(PAGE, "outcomes", output_of([CHECK], Path(folder)))
    text = PAGE.read_text("utf-8")
    written = re.sub(
        r"(<!-- faults: .*? -->\n).*?(<!-- /faults -->)",
        lambda found: f"{found[1]}{faults_table()}\n\n{found[2]}",
        text,
        flags=re.DOTALL,
    )
    PAGE.write_text(written, "utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    main()
