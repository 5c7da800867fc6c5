"""`whichloop check`: whether a loop, a program, a suite, plans or a model keep what they promise."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .flags import Data, Json, Tools, Verbose

if TYPE_CHECKING:
    from whichloop.checks.any import Check

SAY_EVERY_S = 5.0


def check(
    things: Annotated[list[str], typer.Argument(metavar="THING", help="What to check, its kind in front.")],
    data: Data = None,
    tools: Tools = None,
    run_tools: Annotated[bool, typer.Option("--run-tools", metavar="", help="Call tools of your own, for real.")] = False,
    tasks: Annotated[int | None, typer.Option(metavar="N", help="Tasks of a suite whose tools are called.")] = None,
    require: Annotated[list[str] | None, typer.Option(metavar="FAULT=OUTCOME,…", help="What a program must do.")] = None,
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME", help="This fault only; again for more.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, a test a fault.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of the faults.")] = None,
    venv: Annotated[str | None, typer.Option(metavar="FOLDER", help="Virtual environment of a program.")] = None,
    key: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Variable that a program may have.")] = None,
    limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each law, or for a hanging tool.")] = None,
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="Server of a model.")] = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Check a loop, a program, a suite, plans or a model.

    KIND in front says which. Left out, it is found out:

    loop     the name of a loop or framework: the laws of loops
    program  an address, FILE.py:function, a command (behind -- if it has
             flags): what it does with one fault at a time
    suite    the name of a suite: whether its results can be trusted
    plans    a file, .csv .jsonl .parquet .json .txt .plan
    model    local, local:FILE, provider/name: a few tiny requests

    module:Name is imported: a loop has `run`, a suite needs no argument,
    any other function is a program. Exit code 1: something does not hold.
    """
    from whichloop.checks.any import check as checked
    from whichloop.checks.any import told
    from whichloop.runs.config import SettingError

    from .console import check_writable, show
    from .process import DONE, FAILED, load_env, own_prints_aside

    with own_prints_aside():
        kind, words = told(things)
        for name, path in (("--junit", junit), ("--page", page)):
            if path is not None and kind != "program":
                raise typer.BadParameter(f"it is for `check program`, not for `check {kind}`", param_hint=name)
            if path is not None:
                check_writable(name, path, "nothing was checked")
        if kind == "model":
            load_env()
        options: dict[str, Any] = {"data": data, "tools": tools, "run_tools": run_tools, "tasks": tasks, "require": require}
        options |= {"fault": fault, "venv": venv, "key": key, "limit": limit, "base_url": base_url}
        try:
            found = checked(words, kind, _progress(), **options)
        except SettingError as error:  # each is a flag here, also what `compare` takes by -s
            raise ValueError(f"--{error.setting.replace('_', '-')}: {error.problem}") from None
    show(found.doc, as_json=as_json, verbose=verbose)
    _write(found, junit, page)
    raise typer.Exit(DONE if found.ok else FAILED)


def _write(found: Check, junit: Path | None, page: Path | None) -> None:
    """Write what a program did with each fault where it was asked for."""
    from whichloop.checks.any import program_junit
    from whichloop.reports.html.page import Part, page_html

    from .render import write

    if junit is not None:
        junit.write_text(program_junit(found.doc.data), encoding="utf-8")
    if page is not None and "trouble" not in found.doc.data:
        write(page_html(found.doc.title, "One fault at a time", [Part("", found.doc.blocks)]), page, page)


def _progress() -> Callable[[str, int, int], None]:
    """Return what says on stderr every few seconds how far a check is."""
    from .console import say

    said_at = time.monotonic()

    def hear(what: str, done: int, total: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= SAY_EVERY_S:
            said_at = time.monotonic()
            say(f"{what}: {done:,} of {total:,}")

    return hear
