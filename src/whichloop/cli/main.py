"""The `whichloop` command: its subcommands by name, how their help is laid out, and how a user's mistake is reported.

A subcommand's module is imported only when the subcommand is chosen, so `whichloop --help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import BadParameter
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group, get_install_completion_arguments

from whichloop import cli
from whichloop._lazy import explained_imports
from whichloop.runs.silent_end import terminated_as_interrupted, told_of_exit

from .process import BAD_INPUT, DONE, INTERRUPTED, INVALID, lasting_stdout

COMMANDS: Mapping[str, tuple[str, str]] = {
    "compare": ("compare:compare", "Run loops over a suite's tasks and say which is better, with intervals."),
    "init": ("init:init", "Write settings, example tasks with plans, tools, a test and a recipe for CI into a project."),
    "list": ("list_:list_", "List what can be named on the command line, or show one with its options."),
    "resume": ("resume:resume", "Continue an interrupted run: run only the trials that are missing."),
    "extend": ("resume:extend", "Add loops, profiles, models, repeats or tasks to a run."),
    "rescore": ("resume:rescore", "Judge a run's answers again with today's scorers and expected answers."),
    "ablate": ("ablate:ablate", "Vary a loop's options together and say what each of them does."),
    "report": ("report:report", "Print what a run says, and write its page."),
    "show": ("show:show", "Print the steps of one trial, its faults, and why it was lost; -v prints its prompts and replies."),
    "why": ("why:why", "Say what trials were lost to, by cause and arm, and how often solved trials show the same."),
    "replay": ("why:replay", "Run one trial of a run again, as it was or with other faults."),
    "card": (
        "card:card",
        "Disclose an agent on one page: figures, what each fault does to it, requests, options, versions.",
    ),
    "optimize": ("optimize:optimize", "Optimize each loop's prompts on an equal budget, and test them on locked tasks."),
    "prompts": (
        "prompts:prompts",
        "Print the prompts of a loop, instructions and demonstrations, or how those of B differ from those of A.",
    ),
    "serve": (
        "serve:serve",
        "Serve the scripted model to programs that ask as OpenAI's, Anthropic's or Google's clients do.",
    ),
    "validate": ("validate:validate", "Say how well the tunnel predicts a run: fit to half of its tasks, held against the rest."),
    "size": ("size:size", "Compute from a pilot run how many tasks and repeats a decision needs."),
    "gate": ("gate:gate", "Say whether a run is worse than a baseline."),
    "import": ("import_:import_", "Import and compare results of other tools."),
    "export": ("export:export", "Write each kept trial of a run in a format that other tools read."),
    "check loop": ("check_loop:check_loop", "Test a loop against every law, with generated models and tools."),
    "check model": ("check_model:check_model", "Send a real model a few tiny requests and say what works."),
    "check program": ("check_program:check_program_", "Run an agent with one fault at a time, and say what it does with each."),
    "check suite": ("check_suite:check_suite", "Run every check on a suite, and try agents that must not pass it."),
    "new loop": (
        "check_loop:new_loop",
        "Write NAME.py, a small loop that works, and test_NAME.py, which tests it against the laws.",
    ),
    "profile fit": ("profile:fit", "Estimate from a run's traces how often its model failed."),
    "profile show": ("profile:show", "Print a profile: its kinds of fault, what they mean, and how often they occur."),
    "frameworks install": (
        "frameworks:install_",
        "Make environments of frameworks, with the versions that were tested, or with others.",
    ),
    "frameworks list": (
        "frameworks:list_frameworks",
        "List the frameworks: the version that `install` gives, the one that is installed, and their options.",
    ),
    "plan check": ("plan:check", "Say what is wrong with the plans in a file, and which of them lead to the right answers."),
    "plan schema": ("plan:schema", "Print the JSON schema of a plan."),
    "suite learn": ("suite_learn:learn", "Write a run's suite with the calls of successful trials as plans."),
}
"""Subcommand → module and function within this package, and the first line of the function's docstring."""

GROUPS: Mapping[str, str] = {
    "check": "Check an agent, a loop, a suite or a real model.",
    "frameworks": "Install agent frameworks to compare, each in an environment of its own, or list them.",
    "new": "Write a first version of your own loop.",
    "plan": "Check the plans of your own tasks.",
    "profile": "Fit a fault profile to a run, or show one.",
    "suite": "Learn plans for the tasks of your own suite.",
}


UsageError: type[Exception] = BadParameter.__mro__[1]
"""What the parser raises; the parser's own module has another name in each version of Typer."""
OPTIONS: Mapping[str, Sequence[str]] = {
    "What is compared": (
        *("loop", "program", "suite", "data", "tools", "profile", "arm", "model", "user", "factor", "interactions", "design"),
        *("config", "name", "prediction"),
    ),
    "The baseline": ("baseline", "bless", "self", "times"),
    "How files are read": ("format", "map", "scorer", "rows", "scale", "cluster", "errors-as-failures", "max-left-out"),
    "Tasks and repeats": (
        "split",
        "tasks",
        "skip-unplanned",
        "quarantine",
        "repeats",
        "looks",
        "seed",
        "ahead",
        "train",
        "dev",
        "test",
    ),
    "Statistics": ("alpha", "margin", "power", "metric", "accept", "amortize"),
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
    "What is kept": ("traces", "replace", "output", "runs", "mlflow", "tracking-uri", "experiment", "otlp"),
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


HEADINGS: Mapping[str, Sequence[str]] = {
    "Compare": ("compare", "ablate", "size", "extend", "resume", "rescore", "import"),
    "Read a run": ("report", "why", "show", "replay", "validate", "export"),
    "Guard against regressions": ("gate", "check", "card"),
    "Optimize prompts": ("optimize", "prompts"),
    "Prepare": ("init", "new", "suite", "plan", "profile", "frameworks", "serve", "list"),
}
"""Heading → commands and groups of commands."""


def write_commands(formatter: Any, summaries: Mapping[str, str]) -> None:
    """Write commands under headings, each with its whole summary."""
    for heading, names in HEADINGS.items():
        _section(formatter, heading, [(name, summaries[name]) for name in names if name in summaries])


MAX_SUMMARY = 200
"""Characters of a command's summary in a list: all of it."""
CONTEXT = {"max_content_width": 120}
"""Help is as wide as the terminal, up to this."""


class LazyCommand(TyperCommand):
    """A command's name and summary; once it is chosen, its module is imported and takes over."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary, short_help=summary, rich_markup_mode=None)
        self.target = target

    def load(self) -> Any:
        module, _, function = self.target.partition(":")
        return _command_of(self.name, getattr(import_module(f"{__package__}.{module}"), function))

    def make_context(self, *args: Any, **options: Any) -> Any:
        return self.load().make_context(*args, **options)


@cache
def _command_of(name: str | None, function: Callable[..., None]) -> Any:
    """Return a function as a command with its flags, made once: it takes as long as a short command, and several may follow."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=GroupedCommand, context_settings=CONTEXT)(function)
    return get_command(app)


class Commands(TyperGroup):
    """All commands. Ctrl-C at any time ends in one line and an exit code of its own, and so does code that leaves Python."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # Typer's own context
        """Write the commands by purpose."""
        write_commands(formatter, {name: command.get_short_help_str(MAX_SUMMARY) for name, command in self.commands.items()})

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except UsageError as error:
            raise _ended_by(error) from None

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # Typer's own context
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise _ended_by(error) from None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except SystemExit as left:  # commands raise typer.Exit
            print(cli.exit_line(left), file=sys.stderr)
            raise typer.Exit(INVALID) from None


def _ended_by(error: Exception) -> Exception:
    """Say what is wrong with the words of a command, and return what ends it; a group that is typed alone shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return error
    print(cli.usage_error_line(error), file=sys.stderr)
    return typer.Exit(BAD_INPUT)


def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"whichloop {cli.package_version('whichloop')}")
        raise typer.Exit(DONE)


def _all_commands() -> TyperGroup:
    root = typer.Typer(
        name="whichloop",
        cls=Commands,
        help="A wind tunnel for agent loops: compare designs on the same tasks, tools, model behaviour and faults.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    root.callback(invoke_without_command=True, context_settings=CONTEXT)(_root)
    commands = get_group(root)
    commands.params += get_install_completion_arguments()
    groups = {"": commands}
    for name, summary in GROUPS.items():
        groups[name] = TyperGroup(
            name=name, help=summary, short_help=summary, no_args_is_help=True, rich_markup_mode=None, context_settings=CONTEXT
        )
    for name, (target, summary) in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group and group not in commands.commands:
            commands.add_command(groups[group])
        groups[group].add_command(LazyCommand(last, target, summary))
    return commands


app = _all_commands()


def main() -> None:
    """Run the command; a user's mistake is one line on stderr, without secrets, and exit code 2."""
    try:
        with told_of_exit(), terminated_as_interrupted(), lasting_stdout(), explained_imports("this command"):
            app()
    except (ValueError, OSError) as error:
        print(cli.error_line(error), file=sys.stderr)
        sys.exit(BAD_INPUT)
    except Exception as error:  # a mistake of ours
        sys.stderr.write(cli.crash_text(error))
        sys.exit(1)  # as Python does
