"""`whichloop list`: what can be named on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.text import Text

from whichloop.protocol.names import nearest
from whichloop.protocol.values import counted
from whichloop.text.output import terminal_safe

from .catalogue import CATALOGUES, CatalogueEntry, CatalogueFramework, CatalogueSuite, entries, outlines, own_loop
from .console import out, print_row
from .options import JsonOption, OptionGroup, with_options
from .process import own_prints_aside


def _completed(incomplete: str) -> list[str]:
    return [what for what in CATALOGUES if what.startswith(incomplete)]


class CatalogueChoice(OptionGroup):
    what: Annotated[str, typer.Argument(metavar="|".join(CATALOGUES), autocompletion=_completed)]
    """What to list."""
    name: Annotated[str | None, typer.Argument()] = None
    """The one to show with its facts and options, of loops also package.module:Name; if absent, all are listed, a line each."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Show the facts and options of all."""


@with_options()
def list_(choice: CatalogueChoice, output: JsonOption) -> None:
    """List what can be named on the command line, or show one with its options."""
    in_full = choice.verbose or choice.name is not None
    listed = entries if in_full or output.as_json else outlines
    if choice.what == "frameworks":
        raise ValueError("there is no list of 'frameworks' here: whichloop frameworks list, or list loops, which has them, too")
    if choice.what not in CATALOGUES:
        raise ValueError(f"there is no list of {choice.what!r}; {nearest(choice.what, CATALOGUES)}")
    if choice.what == "loops" and choice.name is not None and ":" in choice.name:
        with own_prints_aside():
            chosen = [own_loop(choice.name)]
    else:
        chosen = _chosen(listed(choice.what), choice)
    if output.as_json:
        print(json.dumps([entry.as_dict() for entry in chosen], ensure_ascii=True))
    else:
        _print(chosen, in_full=in_full)


def _chosen(entries: list[CatalogueEntry], choice: CatalogueChoice) -> list[CatalogueEntry]:
    """Return what is listed. Raises ValueError for an unknown name."""
    if choice.name is None:
        return entries
    named = [entry for entry in entries if entry.name == choice.name]
    if not named:
        hint = nearest(choice.name, [entry.name for entry in entries])
        raise ValueError(f"there is no {choice.name!r} among the {choice.what}; {hint}")
    return named


def _print(entries: Sequence[CatalogueEntry], *, in_full: bool) -> None:
    """Print names and what they are, or also facts and options; frameworks apart."""
    console = out()
    frameworks = [entry for entry in entries if isinstance(entry, CatalogueFramework)]
    others = [entry for entry in entries if not isinstance(entry, CatalogueFramework)]
    if not in_full:
        _print_lines(others)
    for entry in others if in_full else ():
        _print_entry(entry, _facts(entry) if isinstance(entry, CatalogueSuite) else "")
    if frameworks:
        heading = "Frameworks, each in an environment of its own, which whichloop frameworks install NAME makes:"
        console.print(Text(f"\n{heading}", style="italic"), soft_wrap=True)
    if not in_full:
        _print_lines(frameworks)
    for entry in frameworks if in_full else ():
        print_framework(entry)


def _print_lines(entries: Sequence[CatalogueEntry]) -> None:
    """Print what each is, wrapped beside its name."""
    width = max((cell_len(entry.name) for entry in entries), default=0) + 2
    for entry in entries:
        print_row([(entry.name, "bold", width)], entry.summary)


def print_framework(entry: CatalogueFramework) -> None:
    """Print a framework, the version that can be installed, the one that is, and its options."""
    _print_entry(entry, f"version {entry.version}, {f'installed {entry.installed}' if entry.installed else 'not installed'}")


def _print_entry(entry: CatalogueEntry, facts: str) -> None:
    console = out()
    _print_lines([entry])
    if facts:
        console.print(Text(f"    {facts}"), soft_wrap=True)
    for option in entry.options:
        values = f" (of {', '.join(option.values)})" if option.values else ""
        console.print(
            Text(f"    {option.name} = {option.default}{values}  {terminal_safe(option.doc)}", style="dim"), soft_wrap=True
        )


def _facts(suite: CatalogueSuite) -> str:
    if suite.needs:
        return f"needs {suite.needs}"
    splits = ", ".join(f"{count} {split}" for split, count in suite.splits.items()) or "no splits"
    plan = f"median plan {suite.median_plan:g} calls"
    return f"version {suite.version}, {counted(suite.tasks, 'task')} ({splits}), {plan}, digest {suite.digest}"
