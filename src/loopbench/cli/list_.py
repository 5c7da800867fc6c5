"""`loopbench list`: what can be named on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from loopbench.text.plain_text import plain

from .catalogue import CatalogueEntry, CatalogueSuite, entries
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
    """Print names, what they are, and their options."""
    console = out()
    for entry in found:
        console.print(Text.assemble((entry.name, "bold"), f"  {plain(entry.summary)}"), soft_wrap=True)
        if isinstance(entry, CatalogueSuite):
            console.print(Text(f"    {_facts(entry)}"), soft_wrap=True)
        for option in entry.options:
            console.print(Text(f"    {option.name} = {option.default}  {plain(option.doc)}", style="dim"), soft_wrap=True)


def _facts(suite: CatalogueSuite) -> str:
    if suite.needs:
        return f"needs {suite.needs}"
    splits = ", ".join(f"{count} {split}" for split, count in suite.splits.items()) or "no splits"
    plan = f"median plan {suite.median_plan:g} calls"
    return f"version {suite.version}, {suite.tasks} tasks ({splits}), {plan}, digest {suite.digest}"
