"""What tests of documentation pages share: the commands of a page, run for real, and the blocks that hold their output."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from benchmarks.pages import block, write_block
from whichloop.cli.main import main
from whichloop.reports import html

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUN_FOLDER = re.compile(r"runs/\d{8}-\d{6}-\w+-[0-9a-f]{4}")
"""The directory of a run, whose name no two runs share."""


def write_output(page: Path, name: str, output: str) -> None:
    """Put a command's output into a block, as preformatted text. Raises ValueError where the page has no such block."""
    write_block(page, name, f"```text\n{output}\n```")


def preformatted(page: Path, name: str) -> str:
    """Return the text of a block without its fence."""
    return block(page, name).strip().removeprefix("```text\n").removesuffix("\n```")


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page's first block of them, without `whichloop`."""
    found = re.search(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    joined = found[1].replace("\\\n", " ")
    return [shlex.split(line, comments=True)[1:] for line in joined.splitlines() if line.strip()]


def output_of(runs: Sequence[Sequence[str]], folder: Path, width: int = 120) -> str:
    """Run commands one after the other in a folder, and return what the last one prints on a terminal of so many columns.

    What a run's page holds is for the tests of pages, and an empty one is made here.
    """
    output, arguments, columns = "", sys.argv, os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        for words in runs:
            extra = ["--quiet"] if words[0] in ("compare", "ablate") else []
            sys.argv = ["whichloop", *words, *extra]
            out = io.StringIO()
            with (
                contextlib.chdir(folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.suppress(SystemExit),
                patch.object(html, "report_html", lambda *_, **__: ""),
            ):
                main()
            output = out.getvalue()
    finally:
        sys.argv = arguments
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return "\n".join(line.rstrip() for line in output.splitlines()).strip()
