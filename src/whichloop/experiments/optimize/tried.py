"""The programs that a search tried, read from its files: what each scored, on how many tasks, and what its rollouts took."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from whichloop.experiments.compare.tables import would_decide
from whichloop.metrics.gains import Gain
from whichloop.metrics.gate import MORE
from whichloop.metrics.pairs import Pair
from whichloop.metrics.record_fields import MAX_COUNT
from whichloop.metrics.statistics import Interval
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.runs.store.files import RunError, read_document
from whichloop.runs.typed_budgets import budget_text
from whichloop.text.numbers import interval

from .candidates import NO_COST, Candidate, SearchCost, SearchEnd
from .manifest import OptimizationManifest, read_log


@dataclass(frozen=True, slots=True)
class SearchTasks:
    """Number of tasks that an optimizer learns from, and that it chooses programs by."""

    train: int
    dev: int


def tasks_of(manifest: OptimizationManifest) -> SearchTasks:
    """Return the number of tasks that the optimizer of a run has."""
    train, dev = (manifest.splits[name].tasks for name in ("train", "dev"))
    return SearchTasks(train, dev)


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """A program that counts as tried."""

    candidate: Candidate
    spent: SearchCost
    """Its rollouts, those for its dev scores beyond the budget among them."""
    is_kept: bool
    """Whether the design ended with it."""
    tasks: SearchTasks
    """How many there are in all."""

    @property
    def number(self) -> int:
        """Its number; 0 is the design's own program."""
        return self.candidate.number

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. Of each split: the sum of scores, and the tasks that they are of, of how many in all."""
        candidate = self.candidate
        return {
            "program": candidate.number,
            "digest": candidate.digest,
            "kept": self.is_kept,
            "dev_solved": solved(candidate.dev),
            "dev_scored": len(candidate.dev),
            "dev_tasks": self.tasks.dev,
            "train_solved": solved(candidate.train),
            "train_scored": len(candidate.train),
            "train_tasks": self.tasks.train,
            "rollouts": self.spent.trials,
            "calls": self.spent.calls,
            "tokens": self.spent.tokens,
            "cost_usd": self.spent.dollars,
        }


def solved(scores: Mapping[str, float]) -> float:
    """Return how many tasks were solved; one of partial credit counts as its part."""
    return round(sum(scores.values()), 6)


@dataclass(frozen=True, slots=True)
class RolledOut:
    """What a design's log of rollouts tells of its programs."""

    spent: Mapping[str, SearchCost]
    """Digest of a program → the cost of its rollouts."""
    last: str
    """The digest of the program whose rollout was the last that the budget paid for; empty if there is none."""


def rolled_out(log: Path) -> RolledOut:
    """Read a log of rollouts. Raises RunError for one that cannot be read."""
    spent: dict[str, SearchCost] = {}
    last = ""
    for number, line in enumerate(read_log(log), 1):
        try:
            program = str(line["key"][0])
            spent[program] = spent.get(program, SearchCost()) + SearchCost.from_json(line["spent"])
            last = last if line["beyond"] else program
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{log}:{number}: not a rollout: {type(error).__name__}: {error}") from None
    return RolledOut(spent, last)


def tried_programs(path: Path, rollouts: RolledOut, end: SearchEnd, tasks: SearchTasks) -> tuple[TriedProgram, ...]:
    """Read the programs that count as tried, and the one that was kept, from the file of all of them; none without a file.

    Raises RunError for one that cannot be read.
    """
    try:
        candidates = [Candidate.from_json(item, {}) for item in read_document(path)["candidates"]]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None
    return tuple(
        TriedProgram(each, rollouts.spent.get(each.digest, SearchCost()), each.number == end.chosen, tasks)
        for each in candidates
        if each.counts or each.number == end.chosen
    )


def other_rollouts(rollouts: RolledOut, tried: Sequence[TriedProgram]) -> SearchCost:
    """Return the cost of the rollouts of all programs that do not count as tried, such as one that the budget cut off at its first
    task; none where the programs are not known."""
    digests = {program.candidate.digest for program in tried}
    others = [cost for digest, cost in rollouts.spent.items() if digest not in digests] if tried else []
    return sum(others, NO_COST)


def kept_program(tried: Sequence[TriedProgram]) -> TriedProgram | None:
    """Return the program that was kept; None if none is known."""
    return next((program for program in tried if program.is_kept), None)


def advice(gain: Gain, search: SearchEnd, *, is_unchanged: bool, alpha: float) -> str:
    """Return whether to adopt a design's new prompts, what shows it, and what they cost; empty if no task was scored both times.

    `search`: how its search ended. `alpha`: the level of the test.
    """
    keep = f"Keep the old prompts of {gain.design}"
    if search.status == "failed":
        return f"{keep}: the optimizer failed"
    if is_unchanged and search.status == "budget" and search.candidates <= 1:
        return f"{keep}: no other program was tried before the search ended ({search.reason}); a larger budget would try some"
    if is_unchanged:
        early = f" before the search ended ({search.reason})" if search.status == "budget" else ""
        return f"{keep}: no better program was found{early}"
    if gain.test is None:
        return ""
    return _by_verdict(gain, gain.test, keep, alpha)


def _by_verdict(gain: Gain, test: Pair, keep: str, alpha: float) -> str:
    adopt, costs = f"Adopt the new prompts of {gain.design}", _costs(gain)
    word, within = test.verdict.word, f"within {test.margin:g}"
    if word == "better":
        small = f", {within}" if test.verdict.within_margin else ""
        return f"{adopt}: they gain {interval(test.difference, 3)}{small}{_costs_clause(costs, 'and take')}"
    if word == "worse":
        return f"{keep}: the new ones lose {interval(test.difference.turned, 3)}{_costs_clause(costs, 'and take')}"
    if word == "equivalent" and costs and all(cost.times.high < 1 for cost in costs):
        return f"{adopt}: they are equivalent {within}{_costs_clause(costs, 'and take')}"
    if word == "equivalent":
        return f"{keep}: the new ones are equivalent {within}{_costs_clause(costs, 'and take')}"
    return f"{keep}: no gain is shown{_costs_clause(costs, 'and the new ones take')}; {_to_decide(test)}"


def _to_decide(pair: Pair) -> str:
    return "no known number of tasks would decide" if pair.outlook is None else f"{would_decide(pair.outlook)} would decide"


@dataclass(frozen=True, slots=True)
class _Cost:
    """How many times a cost of the old prompts the new ones take."""

    times: Interval
    counted: str
    """What is counted: tokens or dollars."""
    counted_how: str = ""
    """As ` uncached`; empty where there is one way only."""

    def __str__(self) -> str:
        times, what = interval(self.times, 2), f"{self.counted}{self.counted_how}"
        if not self.times.is_known:
            tasks = counted(self.times.n, "test task, which is", "test tasks, which are")
            return f"{self.times.value:.2f} times the {what} on {tasks} too few for an interval"
        if not self.times.low <= 1 <= self.times.high:
            return f"{times} times the {what}"
        if self.times.low >= 1 - MORE and self.times.high <= 1 + MORE:
            return f"about as many {what} ({times} times)"
        return f"{times} times the {what}, not told apart from as many"


def _costs(gain: Gain) -> list[_Cost]:
    """Return what the new prompts cost: in dollars where these are known, uncached and with a cache where the two differ; else in
    tokens."""
    uncached, billed = gain.nominal_usd_ratio, gain.cost_usd_ratio
    if uncached is not None and billed is not None and interval(uncached, 2) != interval(billed, 2):
        return [_Cost(uncached, "dollars", " uncached"), _Cost(billed, "dollars", " with a prompt cache")]
    if (dollars := billed if uncached is None else uncached) is not None:
        return [_Cost(dollars, "dollars")]
    return [] if gain.token_ratio is None else [_Cost(gain.token_ratio, "tokens")]


def _costs_clause(costs: Sequence[_Cost], verb: str) -> str:
    """Return costs as a clause; empty where none is known."""
    return f", {verb} {' and '.join(map(str, costs))}" if costs else ""


DIGITS = 2
"""Digits to which a proposed limit is rounded up."""
Number = TypeVar("Number", int, float)


def cut_off(end: SearchEnd, tried: Sequence[TriedProgram], last: str, budget: BudgetConfig) -> str:
    """Return that the budget ended the search before a program that was ahead of the kept one had run all dev tasks; else empty.

    `last`: the digest of the program that was being scored when the budget ended.
    """
    program = next((each for each in tried if each.candidate.digest == last and not each.is_kept), None)
    if end.status != "budget" or program is None:
        return ""
    ran = {task: score for task, score in program.candidate.dev.items() if task in end.after}
    missing = program.tasks.dev - len(program.candidate.dev)
    kept_score = solved({task: end.after[task] for task in ran})
    if missing < 1 or solved(ran) <= kept_score:
        return ""
    larger = shlex.quote(budget_text(_larger(budget, end.search, program.spent, missing)))
    stopped = f"the budget ended the search before program {program.number} had run all {program.tasks.dev} dev tasks"
    ahead = f"it had solved {solved(ran):g} of the {len(ran)} that it ran, the kept program {kept_score:g} of these"
    return f"{end.design}: {stopped}; {ahead}; a new run with --budget {larger} is likely to finish it"


def _larger(budget: BudgetConfig, search: SearchCost, spent: SearchCost, missing: int) -> BudgetConfig:
    """Return a budget that also pays for the missing rollouts of a program. `spent`: its rollouts so far."""
    each = missing / max(1, spent.trials)
    return BudgetConfig(
        calls=None if budget.calls is None else _raised(budget.calls, search.calls, each * spent.calls),
        tokens=None if budget.tokens is None else _raised(budget.tokens, search.tokens, each * spent.tokens),
        dollars=None if budget.dollars is None else _raised(budget.dollars, search.dollars or 0.0, each * (spent.dollars or 0.0)),
    )


def _raised(limit: Number, spent: Number, more: float) -> Number:
    """Return a limit that has room for more, rounded up; what is a whole number stays one."""
    needed = max(limit, spent) + more
    unit = 10.0 ** (math.floor(math.log10(needed)) - DIGITS + 1)
    rounded = min(math.ceil(needed / unit) * unit, MAX_COUNT)
    return type(limit)(round(rounded, 12))
