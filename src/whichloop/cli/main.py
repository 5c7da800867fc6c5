"""The `whichloop` command: its subcommands, and how a user's mistake is reported.

What carries a command out is imported by its function, so that `whichloop --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.main import get_command

from whichloop._extras import needed_by
from whichloop.runs.trial.watchdog import terminated_as_interrupted, told_of_exit

from .check import check
from .compare import compare
from .export import export
from .gate import gate
from .import_ import import_
from .init import init
from .install import install
from .learn import learn
from .list_ import list_
from .optimize import optimize
from .process import BAD_INPUT, DONE, INTERRUPTED, INVALID, lasting_output
from .prompts import prompts
from .report import report
from .resume import resume
from .serve import serve
from .show import show
from .ui import ui

ClickError: type[Exception] = typer.BadParameter.__mro__[2]
"""What the parser raises; its module has another name in each version of Typer."""

app = typer.Typer(
    name="whichloop",
    help="Compare agent loops on the same tasks, tools, model behaviour and faults.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
) -> None:
    if version:
        from whichloop.protocol.modules import package_version

        print(f"whichloop {package_version('whichloop')}")
        raise typer.Exit(DONE)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(BAD_INPUT)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Compare": {"compare": compare, "resume": resume},
    "Read a run": {"report": report, "show": show, "ui": ui},
    "Guard against regressions": {"gate": gate},
    "Optimize prompts": {"optimize": optimize, "prompts": prompts},
    "Exchange": {"import": import_, "export": export, "learn": learn, "serve": serve},
    "Prepare": {"init": init, "check": check, "list": list_, "install": install},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)


def main() -> None:
    """Run the command; a user's mistake is one line on stderr, without secrets, and exit code 2."""
    for name, usual in (("COLUMNS", "80"), ("LINES", "25")):
        if os.environ.get(name, "1").strip("0") == "":  # as serial consoles and containers set it: a size that is not known
            os.environ[name] = usual
    commands: Any = get_command(app)  # to call `app` would set an excepthook
    try:
        with told_of_exit(), terminated_as_interrupted(), lasting_output(), needed_by("this command"):
            code = commands(prog_name="whichloop", standalone_mode=False)
    except ClickError as error:
        from .mistakes import usage_error_line

        print(usage_error_line(error), file=sys.stderr)
        code = BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except SystemExit as left:  # code of the user's own: commands raise typer.Exit
        from .mistakes import exit_line

        print(exit_line(left), file=sys.stderr)
        code = INVALID
    except (ValueError, OSError) as error:
        from .mistakes import error_line

        typed = [word for word in sys.argv[1:] if word in commands.commands][:1]
        flags = {flag for word in typed for parameter in commands.commands[word].params for flag in parameter.opts}
        print(error_line(error, flags), file=sys.stderr)
        code = BAD_INPUT
    except Exception as error:  # a mistake of ours
        from .mistakes import crash_text

        sys.stderr.write(crash_text(error))
        code = 1  # as Python does
    sys.exit(code)
