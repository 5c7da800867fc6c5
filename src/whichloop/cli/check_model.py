"""`whichloop check model`: whether a real model answers, and what it can do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from whichloop.models.local.model import open_model
from whichloop.models.prices import read_prices
from whichloop.models.probe import ProbeReport, ProbeResult, probe
from whichloop.models.real import RealModel, RealOptions

from .console import out, say
from .environment import load_env
from .options import JsonOption, OptionGroup, with_options

NOT_ANSWERING = 1


class ModelOptions(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Model, such as openai/gpt-4o-mini or local."""
    base_url: str | None = None
    """Address of a server that answers in the provider's protocol: OpenAI's for `openai/NAME`."""
    prices: Path | None = None
    """TOML file of prices in US dollars per million tokens."""
    call_timeout: float = 60.0
    """Time limit for one attempt at a reply, in seconds."""


@with_options()
def check_model(options: ModelOptions, output: JsonOption) -> None:
    """Send a real model a few tiny requests and say what works.

    It tries tools, forced tools, schemas and streaming, and reports usage and cost.
    """
    name, prices = options.name, options.prices
    load_env()
    table = {} if prices is None else read_prices(prices)
    settings = RealOptions(call_timeout_s=options.call_timeout, prices=table)
    model = open_model(name, options.base_url, settings)
    report = asyncio.run(_probe(model))
    if output.as_json:
        print(json.dumps(_as_dict(name, report)))
    else:
        _print(name, report, priced=prices is None or name in table)
    if report.capabilities is None:
        raise typer.Exit(NOT_ANSWERING)


async def _probe(model: RealModel) -> ProbeReport:
    try:
        return await probe(model)
    finally:
        await model.aclose()


def _as_dict(name: str, report: ProbeReport) -> dict[str, Any]:
    return {
        "model": name,
        "answers": report.capabilities is not None,
        "trouble": report.trouble,
        "capabilities": None if report.capabilities is None else asdict(report.capabilities),
        "checks": [asdict(check) for check in report.checks],
    }


def _print(name: str, report: ProbeReport, *, priced: bool) -> None:
    table = Table(title=name, box=SIMPLE)
    for column in ("asked", "works", "seconds", "tokens in", "tokens out", "cost, US$"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for check in report.checks:
        table.add_row(*_cells(check))
    if report.checks:
        out().print(table)
    if not priced:
        say(f"The file of prices has none for {name!r}.")
    if report.capabilities is None:
        say(f"{name} does not answer: {report.trouble}")


def _cells(check: ProbeResult) -> list[str]:
    usage = check.usage
    return [
        check.name,
        {True: "yes", False: "no", None: "?"}[check.works],
        "" if check.seconds is None else f"{check.seconds:.2f}",
        "" if usage is None else str(usage.input_tokens),
        "" if usage is None else str(usage.output_tokens),
        "" if usage is None or usage.cost_usd is None else f"{usage.cost_usd:.6f}",
        check.why_not,
    ]
