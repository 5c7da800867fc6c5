"""The blocks of docs that the code holds: `python -m tests.docs.blocks [--write]`."""

from __future__ import annotations

import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from statistics import median
from typing import Any

from typer.main import get_command

from benchmarks.pages import block, head, laid_out, row, write_block
from tests.docs.pages import DOCS
from whichloop.checks.program import FAULTS
from whichloop.cli.listed import KINDS
from whichloop.cli.main import app
from whichloop.experiments.optimize.config import SearchConfig
from whichloop.runs.built_in import field_docs
from whichloop.runs.config import CompareConfig
from whichloop.runs.registry import generated_suites

FLAGS = {"loop": "loops", "profile": "profiles", "model": "models", "per_trial": "trial_budget"}
"""Flags of `compare` whose setting has another name."""
COMMON = 4
"""An option of so many commands is shown once."""


def option(parameter: Any) -> tuple[str, str]:
    """Return the flags with what they take, and the help with the default."""
    flags = "/".join((*parameter.opts, *parameter.secondary_opts))
    default = f" [{parameter.default}]" if not isinstance(parameter.default, bool | list | None) else ""
    return f"{flags} {parameter.metavar or ''}".strip(), f"{parameter.help}{default}"


def commands() -> Iterator[str]:
    """Yield each command with its options; those of many commands come first."""
    root: Any = get_command(app)
    found: dict[str, dict[tuple[str, str], None]] = {}
    usage: dict[str, str] = {}
    for name, command in root.commands.items():
        context = command.make_context(name, [], resilient_parsing=True)
        pieces = command.collect_usage_pieces(context)[1:]
        usage[name] = " ".join([name, *pieces]).replace("[[RUN]...]", "[RUN]")
        options = [each for each in context.command.get_params(context) if each.param_type_name == "option" and each.name != "help"]
        found[name] = dict.fromkeys(map(option, options))
    users = Counter(each for theirs in found.values() for each in theirs)
    common = [each for each, count in users.items() if count >= COMMON]
    yield from ("```text", "of many commands", *(f"  {line}" for line in laid_out(common)))
    for name, theirs in found.items():
        own = [each for each in theirs if each not in common]
        also = " ".join(flag.split()[0].split("/")[0] for flag in (each[0] for each in theirs if each in common))
        yield from ("", f"{usage[name]}{f'  [{also}]' if also else ''}", *(f"  {line}" for line in (laid_out(own) if own else ())))
    yield "```"


def settings() -> Iterator[str]:
    """Yield each setting with its flag or meaning and its default, by section; the limits of a budget share a line."""
    root: Any = get_command(app)
    context = root.commands["compare"].make_context("compare", [], resilient_parsing=True)
    flags = {FLAGS.get(each.name, each.name): each.opts[0] for each in context.command.get_params(context)}
    sections: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in KINDS["settings"](True, None):
        before, _, last = entry.name.rpartition(".")
        name, about, of_search = entry.name, entry.summary, entry.group.startswith("search")
        if before.endswith("budget"):
            if last != "calls":
                continue
            name = f"{before}.calls|tokens|dollars|seconds"
            about = " ".join(field_docs(SearchConfig if of_search else CompareConfig)[before].split())
        if not of_search:
            about = flags.get(entry.name.removesuffix(".calls")) or about
        default = entry.facts["default"]
        sections[entry.group].append((name, about if default == "none" else f"{about} [{default}]"))
    yield "```text"
    for place, (section, rows) in enumerate(sections.items()):
        yield from [*[""] * bool(place), f"# {section}", *laid_out(rows)]
    yield "```"


def suites() -> Iterator[str]:
    """Yield what each suite is for, by its module's first sentence, and how large it is."""
    yield from head("suite", "what it is for", "version", "tasks", "median plan", "tools", "train / dev / test")
    for name, source in sorted(generated_suites().items()):
        suite = source.suite(None, 0)
        environment = suite.open(suite.tasks[0])
        tools = len(environment.tools)
        environment.close()
        purpose = (inspect.getdoc(import_module(f"whichloop.datasets.{name}")) or "").splitlines()[0]
        splits = Counter(task.labels["split"] for task in suite.tasks)
        plan = median(len(task.plan.calls) for task in suite.tasks if task.plan is not None)
        parts = " / ".join(str(splits[split]) for split in ("train", "dev", "test"))
        yield row(f"`{name}`", purpose, suite.version, len(suite.tasks), f"{plan:g}", tools, parts)


def faults() -> Iterator[str]:
    yield from head("fault", "what happens")
    yield from (row(f"`{fault.name}`", fault.text) for fault in FAULTS)


BLOCKS: Mapping[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("reference", "commands"): commands,
    ("reference", "settings"): settings,
    ("suites", "suites"): suites,
    ("your-agent", "faults"): faults,
}
"""Page and block → its lines."""


def is_renewed(page: str, name: str) -> bool:
    """Whether a block of a page is as the code has it."""
    return block(DOCS / f"{page}.md", name).strip().splitlines() == [*BLOCKS[page, name]()]


if __name__ == "__main__":
    for (of_page, of_block), made in BLOCKS.items():
        if "--write" in sys.argv:
            write_block(DOCS / f"{of_page}.md", of_block, "\n".join(made()))
        else:
            print(*made(), "", sep="\n")
