"""`whichloop check loop`: whether a loop obeys the laws; and `whichloop new loop`: a first version of one."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from whichloop._extras import is_installed
from whichloop.checks import loop as laws
from whichloop.checks.loop import LAWS, Finding, scaffold
from whichloop.checks.loop.check import NOT_CHECKED
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import IfAbsent
from whichloop.runs.registry import make_loop
from whichloop.text.output import terminal_safe

from .console import out, print_row
from .options import JsonOption, OptionGroup, with_options
from .process import DONE, FAILED

_MARKS = {"ok": ("ok", "green"), "failed": ("FAILED", "bold red"), "not applicable": ("not applicable", "yellow")}


class LoopChoice(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Loop, `name`, `name(option=value)` or `package.module:Name`."""
    limit: Annotated[float | None, IfAbsent("60, and 900 for a law on a foreign loop")] = None
    """Seconds that the check of each law may take; what takes longer hangs."""


@with_options()
def check_loop(choice: LoopChoice, output: JsonOption) -> None:
    """Test a loop against every law, with generated models and tools.

    The exit code is 1 if a law does not hold.
    """
    if choice.limit is not None and not 0 < choice.limit < math.inf:
        raise ValueError(f"--limit {choice.limit:g}: a number of seconds above 0 is needed")
    spec = parse_spec(choice.name)
    loop = make_loop(spec)
    findings = laws.check_loop(loop, None if output.as_json else _print_finding, limit_s=choice.limit)
    broken = any(finding.status == "failed" for finding in findings)
    if output.as_json:
        answer = {"loop": str(spec), "ok": not broken, "laws": [finding.as_dict() for finding in findings]}
        print(json.dumps(answer, ensure_ascii=True))
    else:
        _print_total(str(spec), findings)
    raise typer.Exit(FAILED if broken else DONE)


def _print_finding(finding: Finding) -> None:
    """Print a line for a law, and one for the details if it does not hold."""
    if finding.detail == NOT_CHECKED:
        return  # the total tells how many
    says = next(law.says for law in LAWS if law.name == finding.law)
    mark, style = _MARKS[finding.status]
    print_row([(mark, style, 15), (finding.law, "", 17)], says, "dim")
    if finding.detail:
        print_row([("", "", 15)], finding.detail)
    sys.stdout.flush()  # the next law may take its time


def _print_total(name: str, findings: Sequence[Finding]) -> None:
    failed = sum(finding.status == "failed" for finding in findings)
    if unchecked := sum(finding.detail == NOT_CHECKED for finding in findings):
        out().print(Text(f"{unchecked} laws {NOT_CHECKED.replace('not', 'were not', 1)}"), soft_wrap=True)
    total = f"{failed} of {len(findings)} laws do not hold" if failed else "every law holds"
    out().print(Text(f"{name}: {total}", style="bold"), soft_wrap=True)


FIRST_PROFILE = "flaky-format"
"""A first comparison is under faults: in clean air every sound loop solves every task."""


class NewLoopOptions(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Name of the module, such as my_loop."""
    into: Path = Path()
    """Folder to write to."""


@with_options()
def new_loop(options: NewLoopOptions) -> None:
    """Write NAME.py, a small loop that works, and test_NAME.py, which tests it against the laws."""
    files = scaffold.new_loop(options.name, options.into)
    print(f"wrote {terminal_safe(str(files.loop))} and {terminal_safe(str(files.test))}; next:")
    if files.root != Path.cwd():
        print(f"  cd {shlex.quote(str(files.root))}")
    print(f"  whichloop check loop {files.target}")
    if not is_installed("pytest"):
        print(f"  pip install pytest  # which {terminal_safe(files.test.name)} needs")
    test, at = files.test.resolve(), files.root.resolve()
    print(f"  python -m pytest {shlex.quote(str(test.relative_to(at) if test.is_relative_to(at) else test))}")
    print(f"  whichloop compare --loop {files.target} --loop bare --profile {FIRST_PROFILE}")
