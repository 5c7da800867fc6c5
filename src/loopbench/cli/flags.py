"""Flags that several commands have, and what was typed of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Run = Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)]
Runs = Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)]

Workers = Annotated[int | None, typer.Option(help="Processes that trials run in [default: this one; under Ray one per processor].")]
EngineName = Annotated[str | None, typer.Option(help="Where trials run, `local` or `ray` [default: local].")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster [default: one is started on this machine].")]
Concurrency = Annotated[int | None, typer.Option(help="Trials in flight [default: 32; 8 where nothing waits].")]
AsBegunWorkers = Annotated[int | None, typer.Option("--workers", help="Processes that trials run in [default: as it began].")]
AsBegunEngine = Annotated[str | None, typer.Option("--engine", help="Where trials run, `local` or `ray` [default: as it began].")]
AsBegunAddress = Annotated[
    str | None, typer.Option("--address", help="Of a running Ray cluster; one that the run names, typed again.")
]
AsBegunConcurrency = Annotated[int | None, typer.Option("--concurrency", help="Trials in flight [default: as it began].")]

BudgetCalls = Annotated[int | None, typer.Option(help="Most model calls of the run, all sittings together.")]
BudgetTokens = Annotated[int | None, typer.Option(help="Most tokens of the run, all sittings together.")]
BudgetDollars = Annotated[float | None, typer.Option(help="Most US dollars of the run, as far as prices are known.")]
BudgetSeconds = Annotated[float | None, typer.Option(help="Most seconds of the run, all sittings together.")]

Allow = Annotated[list[str] | None, typer.Option(help="Code of your own that the run may import, package.module:Name.")]
BaseUrlAgain = Annotated[str | None, typer.Option(help="The server that the run asks, typed again.")]
CassetteAgain = Annotated[Path | None, typer.Option(help="The recording that the run uses, typed again.")]
TrackingUriAgain = Annotated[str | None, typer.Option("--tracking-uri", help="MLflow store or server of the run, typed again.")]
MlflowAgain = Annotated[bool | None, typer.Option("--mlflow/--no-mlflow", help="Log to MLflow [default: as it began].")]


def given(flags: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of a section's flags those that were typed; None where none was."""
    return {name: value for name, value in flags.items() if value is not None} or None


def limits(calls: int | None, tokens: int | None, dollars: float | None, seconds: float | None) -> dict[str, Any] | None:
    """The section `budget`, as far as it was typed."""
    return given({"calls": calls, "tokens": tokens, "dollars": dollars, "seconds": seconds})
