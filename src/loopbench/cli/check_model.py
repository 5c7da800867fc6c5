"""`loopbench check model`: whether a real model answers, and what it can do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .environment import load_env

if TYPE_CHECKING:
    from loopbench.models.probe import ProbeReport, ProbeResult
    from loopbench.models.real import RealModel

NOT_ANSWERING = 1


def check_model(
    name: Annotated[str, typer.Argument(help="Model, such as openai/gpt-4o-mini.")],
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server.")] = None,
    prices: Annotated[Path | None, typer.Option(help="TOML file with prices of your own.")] = None,
    call_timeout: Annotated[float, typer.Option(help="Seconds for one attempt.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask a real model a few tiny things and say what works: tools, forced tools, schemas, streaming, usage, cost."""
    from loopbench.models.prices import read_prices
    from loopbench.models.real import RealOptions, open_model

    load_env()
    table = {} if prices is None else read_prices(prices)
    model = open_model(name, base_url, RealOptions(call_timeout_s=call_timeout, prices=table))
    found = asyncio.run(_probe(model))
    if as_json:
        print(json.dumps(_as_dict(name, found)))
    else:
        _print(name, found, priced=prices is None or name in table)
    if found.capabilities is None:
        raise typer.Exit(NOT_ANSWERING)


async def _probe(model: RealModel) -> ProbeReport:
    from loopbench.models.probe import probe

    try:
        return await probe(model)
    finally:
        await model.aclose()


def _as_dict(name: str, found: ProbeReport) -> dict[str, Any]:
    return {
        "model": name,
        "answers": found.capabilities is not None,
        "trouble": found.trouble,
        "capabilities": None if found.capabilities is None else asdict(found.capabilities),
        "checks": [asdict(check) for check in found.checks],
    }


def _print(name: str, found: ProbeReport, *, priced: bool) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from .render import out, say

    table = Table(title=name, box=SIMPLE)
    for column in ("asked", "works", "seconds", "tokens in", "tokens out", "cost, US$"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for check in found.checks:
        table.add_row(*_cells(check))
    if found.checks:
        out().print(table)
    if not priced:
        say(f"The file of prices has none for {name!r}.")
    if found.capabilities is None:
        say(f"{name} does not answer: {found.trouble}")


def _cells(check: ProbeResult) -> list[str]:
    usage = check.usage
    return [
        check.name,
        {True: "yes", False: "no", None: "?"}[check.works],
        "" if check.seconds is None else f"{check.seconds:.2f}",
        "" if usage is None else str(usage.input_tokens),
        "" if usage is None else str(usage.output_tokens),
        "" if usage is None or usage.cost_usd is None else f"{usage.cost_usd:.6f}",
        check.said,
    ]
