"""The parts of docs/reference.md that the code holds: `python -m tests.docs.reference [--write]`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from typer.main import get_command

from benchmarks.pages import block, laid_out, write_block
from tests.docs.pages import DOCS
from whichloop.cli.listed import KINDS
from whichloop.cli.main import app
from whichloop.experiments.optimize.config import SearchConfig
from whichloop.runs.built_in import field_docs
from whichloop.runs.config import CompareConfig

PAGE = DOCS / "reference.md"
FLAGS = {"loop": "loops", "profile": "profiles", "model": "models", "per_trial": "trial_budget"}
"""Flags of `compare` whose setting has another name."""
COMMON = 4
"""An option of so many commands is shown once."""


def option(parameter: Any) -> tuple[str, str]:
    """Return the flags with what they take, and the help with the default."""
    flags = "/".join((*parameter.opts, *parameter.secondary_opts))
    default = f" [{parameter.default}]" if not isinstance(parameter.default, bool | list | None) else ""
    return f"{flags} {parameter.metavar or ''}".strip(), f"{parameter.help}{default}"


def commands() -> str:
    """Return each command with its options; those of many commands come first."""
    root: Any = get_command(app)
    found: dict[str, dict[tuple[str, str], None]] = {}
    usage: dict[str, str] = {}
    for name, command in root.commands.items():
        context = command.make_context(name, [], resilient_parsing=True)
        pieces = command.collect_usage_pieces(context)[1:]
        usage[name] = " ".join([name, *pieces]).replace("[[RUN]...]", "[RUN]")
        options = [each for each in context.command.get_params(context) if each.param_type_name == "option" and each.name != "help"]
        found[name] = dict.fromkeys(map(option, options))
    users: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, theirs in found.items():
        for each in theirs:
            users[each].append(name)
    common = [each for each, names in users.items() if len(names) >= COMMON]
    shown = ["of many commands", *(f"  {line}" for line in laid_out(common))]
    for name, theirs in found.items():
        own = [each for each in theirs if each not in common]
        also = " ".join(flag.split()[0].split("/")[0] for flag in (each[0] for each in theirs if each in common))
        shown += ["", f"{usage[name]}{f'  [{also}]' if also else ''}", *(f"  {line}" for line in (laid_out(own) if own else ()))]
    return "\n".join(shown)


def settings() -> str:
    """Return each setting with its flag or meaning and its default, by section; the limits of a budget share a line."""
    root: Any = get_command(app)
    context = root.commands["compare"].make_context("compare", [], resilient_parsing=True)
    options = {each.name: each.opts[0] for each in context.command.get_params(context)}
    flags = {FLAGS.get(name, name): flag for name, flag in options.items()}
    sections: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in KINDS["settings"](True, None):
        before, _, last = entry.name.rpartition(".")
        name, about = entry.name, entry.summary
        if before.endswith("budget"):
            if last != "calls":
                continue
            name, about = (
                f"{before}.calls|tokens|dollars|seconds",
                " ".join(field_docs(SearchConfig if entry.group.startswith("search") else CompareConfig)[before].split()),
            )
        default = entry.facts["default"]
        if not entry.group.startswith("search"):
            about = flags.get(entry.name.removesuffix(".calls")) or about
        sections[entry.group].append((name, about if default == "none" else f"{about} [{default}]"))
    return "\n".join(line for section, rows in sections.items() for line in ["", f"# {section}", *laid_out(rows)]).strip()


BLOCKS: Mapping[str, Any] = {"commands": commands, "settings": settings}


def made(name: str) -> str:
    return f"```text\n{BLOCKS[name]()}\n```"


def stale() -> list[str]:
    """Return the blocks of the page that are not as the code has them."""
    return [name for name in BLOCKS if block(PAGE, name).strip() != made(name)]


if __name__ == "__main__":
    if "--write" in sys.argv:
        for each in BLOCKS:
            write_block(PAGE, each, made(each))
    else:
        print("\n\n".join(map(made, BLOCKS)))
