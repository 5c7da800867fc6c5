"""The commands of a larger baseline, which is likely to decide what a gate leaves undecided."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from loopbench.experiments.compare.deciding import can_be_told, kept_words
from loopbench.metrics.gate import OPEN, GateLine
from loopbench.metrics.outlook import MAX_REPEATS
from loopbench.protocol.counts import counted
from loopbench.runs.config import config_from, flag_of
from loopbench.runs.permissions import own_code
from loopbench.runs.registry import with_size
from loopbench.text.numbers import chance_in_words, dollars

from .baseline import Baseline

SCRIPTED = "scripted"
"""The model that needs no flag."""
TYPED = ("loops", "models", "profiles")
"""Settings of a comparison that are lists, each item of which is typed behind a flag of its own."""


def larger(lines: Sequence[GateLine], baseline: Baseline, path: Path | None, again: Iterable[str]) -> Iterator[str]:
    """Yield what to do about lines that leave open what other tasks would show: the commands of a larger baseline, or that no
    feasible one is likely to decide.

    `again`: the words that gate the run's loops by the same rules, behind those that name the baseline.
    """
    undecided = [line for line in lines if line.outcome in OPEN]
    if not undecided:
        return
    plans = [line.outlook.more for line in undecided if line.outlook is not None]
    if len(plans) < len(undecided):
        yield "No feasible number of tasks is likely to decide all of it."
    if not plans:
        return
    most = max(plans, key=lambda plan: plan.tasks)
    cost = "" if most.cost_usd is None else f" (about ${dollars(most.cost_usd)} a run)"
    chance = f"a baseline of {counted(most.tasks, 'task')}{cost} decides with a chance of about {chance_in_words(most.chance)}"
    command, own = compare_command(baseline, most.tasks), ""
    if not command:
        command, own = own_command(baseline), _supply(baseline, most.tasks)
    if not command:
        imported = "loops" not in baseline.config
        how = (
            "Import results of both over as many, bless the old ones" if imported else "Bless a run of the loop as it was over them"
        )
        yield f"More tasks help: {chance}. {how}, and gate again."
        return
    first = f"{own} Bless" if own else "Bless"
    yield f"More tasks help: {chance}. {first} it with the loop as it was, then gate the changed one again:"
    yield shlex.join(command)
    file = str(path or "FILE")
    yield shlex.join(["loopbench", "bless", "latest", "--output", file])
    words = list(again)
    yield shlex.join(["loopbench", "gate", "--baseline", file, *words, *_allowed(baseline, loops_are_typed="--loop" in words)])
    if own:
        yield repeats_in_words(undecided)


def _allowed(baseline: Baseline, *, loops_are_typed: bool) -> Iterator[str]:
    """Yield the words that let code of the user's own run which the baseline alone names."""
    try:
        config = config_from(baseline.config, "the baseline")
    except ValueError:  # one of another version, which the gate refuses to run again by itself
        return
    for name in own_code(config.model_copy(update={"loops": ()}) if loops_are_typed else config):
        yield from ("--allow", name)


def repeats_in_words(undecided: Sequence[GateLine]) -> str:
    """Return whether more repeats of the same tasks would decide these lines, where tasks are hard to come by."""
    found = [line.more_repeats for line in undecided]
    known = [more for more in found if more is not None and more.chance is not None]
    if len(known) < len(found):
        return (
            "This run cannot tell whether more repeats of the same tasks would do: compare and bless with --repeats 3, and then "
            "the gate says so."
        )
    enough = [more.repeats for more in known if more.repeats is not None]
    chance = chance_in_words(min(more.chance for more in known if more.chance is not None))
    if len(enough) < len(known):
        return (
            f"More repeats of the same tasks do not: even {MAX_REPEATS} decide with a chance of about {chance}, since differences "
            "between tasks stay."
        )
    return f"Or with the same tasks: --repeats {max(enough)} behind compare decides with a chance of about {chance}."


def own_command(baseline: Baseline) -> list[str]:
    """Return the words that run the baseline's configuration over all tasks of a suite that makes no more by itself."""
    config: dict[str, Any] = baseline.config
    if "loops" not in config or not config.get("suite") or not can_be_told(config):
        return []
    return _command(baseline, str(config["suite"]))


def _supply(baseline: Baseline, tasks: int) -> str:
    """Return where so many tasks have to come from, as a sentence: more than there are have to be written."""
    source, ran = baseline.config.get("data") or baseline.config.get("suite"), baseline.suite.tasks
    if baseline.config.get("tasks") is not None:
        return f"{source} needs so many (the baseline ran {ran:,} of them)."
    return f"Add about {tasks - ran:,} tasks to {source}, which has {ran:,}."


def compare_command(baseline: Baseline, tasks: int) -> list[str]:
    """Return the words that run the baseline's configuration over so many tasks; none where no command would say it all."""
    config: dict[str, Any] = baseline.config
    suite = with_size(str(config.get("suite", "")), tasks) if "loops" in config else ""
    if not suite or not can_be_told(config):
        return []
    return _command(baseline, suite)


def _command(baseline: Baseline, suite: str) -> list[str]:
    config: dict[str, Any] = baseline.config
    lists = [(flag_of([name]), str(each)) for name in TYPED for each in config.get(name, ()) if each != SCRIPTED]
    words = [word for pair in lists for word in pair]
    return ["loopbench", "compare", *words, "--suite", suite, "--seed", str(baseline.seed), *kept_words(config)]
