"""How help is laid out: options and commands under headings that say what they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand

UsageError: type[Exception] = BadParameter.__mro__[1]
"""What the parser raises; the parser's own module has another name in each version of Typer."""
OPTIONS: Mapping[str, Sequence[str]] = {
    "What is compared": (
        *("loop", "program", "suite", "data", "tools", "profile", "arm", "model", "user", "factor", "interactions", "design"),
        *("config", "name", "prediction"),
    ),
    "How files are read": ("format", "map", "scorer", "rows", "scale", "cluster", "errors-as-failures", "max-left-out"),
    "Tasks and repeats": (
        "split",
        "tasks",
        "skip-unplanned",
        "quarantine",
        "common-tasks",
        "repeats",
        "looks",
        "seed",
        "ahead",
        "train",
        "dev",
        "test",
    ),
    "Statistics": ("alpha", "margin", "power", "metric", "amortize", "on-undecided", "on-worse-here", "on-other-answers"),
    "Limits": (
        *("max-tool-steps", "trial-timeout", "tool-timeout", "budget", "budget-calls", "budget-tokens", "budget-dollars"),
        *("budget-seconds", "trial-budget-calls", "trial-budget-tokens", "trial-budget-dollars", "trial-budget-seconds"),
        *("price", "proposer-budget", "budget-trials"),
    ),
    "Search for prompts": ("optimizer", "proposer", "threads"),
    "Real models": (
        *("base-url", "call-timeout", "attempts", "requests-per-minute", "tokens-per-minute", "prices", "without"),
        *("context-tokens", "probe", "constrain", "temperature", "top-p", "max-tokens", "provider-seed"),
        *("cassette", "cassette-mode"),
    ),
    "How trials run": ("concurrency", "engine", "address", "workers", "real-time", "allow"),
    "Where it is served": ("host", "port", "mcp"),
    "What is kept": ("traces", "replace", "runs", "mlflow", "tracking-uri", "experiment", "otlp"),
}
"""Heading → options without their dashes, wherever a command has them; all others are about what is printed."""
REST = "What is printed"
MAX_UNGROUPED = 9
"""Options up to which a command shows them in one list."""


class GroupedCommand(TyperCommand):
    """A command whose help shows many options under headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what was typed."""
        try:
            return list(super().parse_args(ctx, args))
        except UsageError as error:
            error.ctx = error.ctx or ctx  # type: ignore[attr-defined]  # so that the line about it names the command
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments first, then the options."""
        documented = [(param, record) for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        arguments = [
            (f"{argument_name(param)}{'' if param.nargs == 1 else '...'}", text)
            for param, (_, text) in documented
            if param.param_type_name == "argument"
        ]
        options = [(param, record) for param, record in documented if param.param_type_name == "option"]
        _section(formatter, "Arguments", arguments)
        if len(options) <= MAX_UNGROUPED:
            _section(formatter, "Options", [record for _, record in options])
            return
        for heading in (*OPTIONS, REST):
            _section(formatter, heading, [record for param, record in options if heading_of(param.opts) == heading])


def argument_name(param: Any) -> str:
    """Return what the help and errors call an argument, such as RUN."""
    return str(param.metavar or param.name.upper())


def heading_of(flags: Sequence[str]) -> str:
    """Return the heading of an option; `flags`: as they are typed, such as `--loop`."""
    names = {flag.lstrip("-") for flag in flags}
    return next((heading for heading, listed in OPTIONS.items() if names & {*listed}), REST)


def _section(formatter: Any, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


COMMANDS: Mapping[str, Sequence[str]] = {
    "Compare": ("compare", "ablate", "size", "extend", "resume", "rescore", "import"),
    "Read a run": ("report", "why", "show", "replay", "validate", "export"),
    "Guard against regressions": ("gate", "bless", "check", "card"),
    "Optimize prompts": ("optimize", "show-program", "diff"),
    "Prepare": ("init", "new", "suite", "plan", "profile", "frameworks", "serve", "list"),
}
"""Heading → commands and groups of commands."""


def write_commands(formatter: Any, summaries: Mapping[str, str]) -> None:
    """Write commands under headings, each with its whole summary."""
    for heading, names in COMMANDS.items():
        _section(formatter, heading, [(name, summaries[name]) for name in names if name in summaries])
