"""`loopbench list`: what can be named on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from loopbench.text.plain_text import plain

from .catalogue import CatalogueEntry, CatalogueFramework, CatalogueSuite, entries
from .console import out
from .options import JsonOption, OptionGroup, with_options


class Catalogue(StrEnum):
    """What `list` can list."""

    LOOPS = "loops"
    SUITES = "suites"
    PROFILES = "profiles"
    METRICS = "metrics"
    MODELS = "models"
    OPTIMIZERS = "optimizers"


class CatalogueChoice(OptionGroup):
    what: Annotated[Catalogue, typer.Argument()]
    """What to list."""


@with_options()
def list_(choice: CatalogueChoice, output: JsonOption) -> None:
    """List what can be named on the command line, with options."""
    found = entries(choice.what.value)
    if output.as_json:
        print(json.dumps([entry.as_dict() for entry in found], ensure_ascii=True))
    else:
        _print(found)


def _print(found: Sequence[CatalogueEntry]) -> None:
    """Print names, what they are, and their options; frameworks apart."""
    console = out()
    frameworks = [entry for entry in found if isinstance(entry, CatalogueFramework)]
    for entry in found:
        if not isinstance(entry, CatalogueFramework):
            _print_entry(entry, _facts(entry) if isinstance(entry, CatalogueSuite) else "")
    if frameworks:
        heading = "Frameworks, each in an environment of its own, which loopbench frameworks install NAME makes:"
        console.print(Text(f"\n{heading}", style="italic"), soft_wrap=True)
    for entry in frameworks:
        print_framework(entry)


def print_framework(entry: CatalogueFramework) -> None:
    """Print a framework, the version that can be installed, the one that is, and its options."""
    _print_entry(entry, f"version {entry.version}, {f'installed {entry.installed}' if entry.installed else 'not installed'}")


def _print_entry(entry: CatalogueEntry, facts: str) -> None:
    console = out()
    console.print(Text.assemble((entry.name, "bold"), f"  {plain(entry.summary)}"), soft_wrap=True)
    if facts:
        console.print(Text(f"    {facts}"), soft_wrap=True)
    for option in entry.options:
        console.print(Text(f"    {option.name} = {option.default}  {plain(option.doc)}", style="dim"), soft_wrap=True)


def _facts(suite: CatalogueSuite) -> str:
    if suite.needs:
        return f"needs {suite.needs}"
    splits = ", ".join(f"{count} {split}" for split, count in suite.splits.items()) or "no splits"
    plan = f"median plan {suite.median_plan:g} calls"
    return f"version {suite.version}, {suite.tasks} tasks ({splits}), {plan}, digest {suite.digest}"
