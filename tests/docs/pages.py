"""What tests of documentation pages share: the commands of a page, run for real, and the blocks that hold their output."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from whichloop.cli.main import main
from whichloop.reports.html import page as html

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


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
