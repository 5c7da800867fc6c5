"""Arguments and options that several commands share, and what `-s NAME=VALUE` gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

RUNS = Path("runs")
LATEST = "latest"
"""The run that a command reads where none is named."""
PRINTED = "What is printed"
"""Panel of the help."""


def names(module: str, function: str, *arguments: str) -> Callable[[str], list[str]]:
    """Return what completes a name in the shell: a function of ours lists what there is, loaded when it is asked."""

    def complete(incomplete: str) -> list[str]:
        listed: Sequence[str] = getattr(import_module(f"whichloop.{module}"), function)(*arguments)
        return [name for name in listed if name.startswith(incomplete)]

    return complete


Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.", rich_help_panel=PRINTED)]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", metavar="", help="Print answer and warnings alone.", rich_help_panel=PRINTED)]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", metavar="", help="Print all tables and notes.", rich_help_panel=PRINTED)]
Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of the runs.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, its name in --runs, or `latest`.")]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="NAME", help="Code of your own that may run: module:Name, a command.")
]
Settings = Annotated[
    list[str] | None, typer.Option("-s", metavar="NAME=VALUE", help="Any other setting: `list settings` prints them.")
]
Loops = Annotated[
    list[str] | None,
    typer.Option(
        "--loop", metavar="NAME", help="Loop: name, name(option=value), module:Name.",
        autocompletion=names("runs.built_in", "loop_names"),
    ),
]  # fmt: skip
Suite = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Suite of tasks.", autocompletion=names("runs.built_in", "builtin_names", "suite")),
]
Data = Annotated[Path | None, typer.Option(metavar="FILE", help="File that the suite reads its tasks from.")]
Tools = Annotated[str | None, typer.Option(metavar="MODULE", help="Tools of your own: module, mcp:COMMAND, mcp:URL.")]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile", metavar="NAME", help="Fault profile, or a TOML file.",
        autocompletion=names("models.profiles", "built_in_profiles"),
    ),
]  # fmt: skip


def loops_and_programs(loops: Sequence[str] | None, programs: Sequence[str] | None) -> tuple[str, ...]:
    """Return loops by name, those that are programs last. Raises SettingError for what starts no program."""
    from whichloop.protocol.names import program_spec
    from whichloop.runs.config import SettingError

    try:
        return (*(loops or ()), *map(program_spec, programs or ()))
    except ValueError as error:
        raise SettingError("program", str(error)) from None


def one_of(**given: object) -> None:
    """Raise BadParameter where more than one of the options was given."""
    typed = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(typed) > 1:
        raise typer.BadParameter(f"{' and '.join(typed)} exclude each other")


def only_with(what: str, fits: object, **given: object) -> None:
    """Raise BadParameter for an option that was given though it says nothing here. `what`: what it goes with."""
    for name, value in given.items():
        if not fits and value is not None and value is not False and value != []:
            raise typer.BadParameter(f"--{name.replace('_', '-')} goes with {what}")


def settings(typed: Sequence[str] | None, **given: Any) -> dict[str, Any]:
    """Return settings by name, a section's in a dictionary of its own: those of `-s NAME=VALUE`, and the options that were given.

    A setting that is given several times by -s has several values. Raises BadParameter for what has no `=`, or has an option, too.
    """
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None and value != ()}
    for pair in typed or ():
        path, equals, value = pair.partition("=")
        *sections, name = path.strip().split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        if not equals or not isinstance(place, dict):
            raise typer.BadParameter(f"{pair!r}: write NAME=VALUE", param_hint="-s")
        if place is found and given.get(name):
            raise typer.BadParameter(f"{name} is typed as an option, too", param_hint="-s")
        before = place.get(name)
        place[name] = value if before is None else (*(before if isinstance(before, tuple | list) else (before,)), value)
    return found
