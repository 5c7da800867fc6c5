"""A larger baseline, which is likely to decide what a gate leaves undecided, and the command that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from whichloop.experiments.compare.prepare import can_be_told, kept_words
from whichloop.metrics.gate import OPEN, GateLine
from whichloop.metrics.outlook import MAX_REPEATS
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.config import flag_of
from whichloop.runs.registry import with_size
from whichloop.text.numbers import chance_in_words

from .data.advice import Larger
from .data.baseline import Baseline

TYPED = ("loops", "models", "profiles")
"""Settings of a comparison that are lists, each item of which is typed behind a flag of its own."""

MAX_ENLARGED = 10
"""Tasks of the user's own are not to be made more than so many times as many: nobody writes 900 where there are 24."""


def larger(lines: Sequence[GateLine], baseline: Baseline, more: Sequence[str] = ()) -> Larger | None:
    """Return the larger baseline that is likely to decide the lines that leave open what other tasks would show; None without any.

    `more`: words behind the command that runs it.
    """
    undecided = [line for line in lines if line.outcome in OPEN]
    if not undecided:
        return None
    plans = [line.outlook.more for line in undecided if line.outlook is not None]
    imported = "loops" not in baseline.config
    ran, suite = baseline.suite.tasks, str(baseline.config.get("suite") or "")
    repeats = "" if imported else repeats_in_words(undecided)
    if not plans:
        return Larger(0, 0.0, None, whole=False, imported=imported, repeats=repeats, ran=ran, out_of_proportion=True)
    most = max(plans, key=lambda plan: plan.tasks)
    larger_one = Larger(most.tasks, most.chance, most.cost_usd, whole=len(plans) == len(undecided), imported=imported, ran=ran)
    sized = with_size(suite, most.tasks) if suite else ""
    if not sized and baseline.config.get("tasks") is None and most.tasks > MAX_ENLARGED * ran:
        return replace(larger_one, repeats=repeats, out_of_proportion=True)
    if imported or not can_be_told(baseline.config) or not suite:
        return larger_one
    if sized:
        return replace(larger_one, suite=sized, compare=(*_command(baseline, sized), *more))
    command = (*_command(baseline, suite), *more)
    return replace(larger_one, supply=_supply(baseline, most.tasks), compare=command, repeats=repeats)


def repeats_in_words(undecided: Sequence[GateLine]) -> str:
    """Return whether more repeats of the same tasks would decide these lines, where tasks are hard to come by, as a sentence."""
    plans = [line.more_repeats for line in undecided]
    feasible = [more for more in plans if more is not None and more.chance is not None]
    if len(feasible) < len(plans):
        return "A baseline of 3 repeats shows whether more of them would decide it."
    enough = [more.repeats for more in feasible if more.repeats is not None]
    chance = chance_in_words(min(more.chance for more in feasible if more.chance is not None))
    if len(enough) < len(feasible):
        return f"More repeats do not decide it: even with {MAX_REPEATS}, the chance is about {chance}."
    return f"With {max(enough)} repeats of the same tasks, the chance of a decision is about {chance}."


def _supply(baseline: Baseline, tasks: int) -> str:
    """Return where so many tasks have to come from, as a sentence: more than there are have to be written."""
    source, ran = baseline.config.get("data") or baseline.config.get("suite"), baseline.suite.tasks
    if baseline.config.get("tasks") is not None:
        return f"{source} needs so many (the baseline ran {ran:,} of them)."
    return f"Add about {tasks - ran:,} tasks to {source}, which has {ran:,}."


def run_anew(baseline: Baseline, loops: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that runs the baseline's configuration once more; nothing where no command says all of it.

    `loops`: those that run in the place of the baseline's.
    """
    if "loops" not in baseline.config or not can_be_told(baseline.config):
        return ()
    tasks = baseline.config.get("tasks")
    some = () if tasks is None else (flag_of(["tasks"]), str(tasks))
    return (*_command(baseline, str(baseline.config.get("suite") or ""), loops), *some)


def _command(baseline: Baseline, suite: str, loops: Sequence[str] = ()) -> Iterator[str]:
    """Yield the words that run the baseline's configuration over all tasks of a suite; of its own file of tasks, where that is its
    suite."""
    config: dict[str, Any] = baseline.config | ({"loops": loops} if loops else {})
    yield from ("whichloop", "compare")
    for name in TYPED:
        for each in config.get(name, ()):
            if each != SCRIPTED:
                yield from (flag_of([name]), str(each))
    if suite:
        yield from (flag_of(["suite"]), suite)
    yield from ("--seed", str(baseline.seed), *kept_words(config))
    for part, limit in config.get("budget", {}).items():
        yield from (flag_of(["budget", part]), str(limit))
