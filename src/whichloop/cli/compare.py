"""`whichloop compare`: run loops over a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whichloop import cli

from .environment import load_env
from .options import ConfigFlags, OptionGroup, ResultsOptions, with_options


class ConfigFile(OptionGroup):
    config: Path | None = None
    """TOML file with any of these settings; flags override it."""


class SpanOptions(OptionGroup):
    otlp: str | None = None
    """Address of an OTLP endpoint, such as http://localhost:4318, that gets each trial's spans when it has ended."""


@with_options(ConfigFlags())
def compare(flags: dict[str, Any], file: ConfigFile, spans: SpanOptions, output: ResultsOptions) -> None:
    """Run loops over a suite's tasks and say which is better, with intervals."""
    load_env()  # keys may stand in a .env of the current directory
    cli.carry_out_new(file.config, flags, output, spans.otlp)
