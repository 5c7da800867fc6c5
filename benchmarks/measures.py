"""The tables of docs/measures.md: context, how much of accuracy is the loop, calls at once, and injection; Markdown to stdout.

python benchmarks/measures.py [--share S] [--only NAME …] [--write]

The overview also shows what loops recover from, one fault at a time, and the smallest sets of faults that still lose their lost
trials: outcomes as `whichloop report --card` has them, sets as `whichloop show --minimal` does.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

from comparing import DESIGNS, compared
from pages import head, make_tables, row
from whichloop.checks.program import RECOVERED, check_program
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import harness_table, measures_table
from whichloop.experiments.why.replay import SolvedAgainError, minimal_among, replays_of, unchanged_run
from whichloop.metrics.statistics import Interval, accuracy_interval
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import find, make_loop
from whichloop.text.doc import Table
from whichloop.text.numbers import interval, p_value

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
FRAMEWORKS = ("langchain", "openai_agents", "pydantic_ai")
AT_ONCE = ("finish(parallel_tools=true)", "stateless(execution_mode=parallel)")
DEFENCES = (
    "results=marked",
    "results=plain, tools=needed",
    "results=plain, writes=confirmed",
    "results=marked, tools=needed, writes=confirmed",
)
TOKENS = ("clean", "tokens_with_cache")
COLUMNS = (
    ("clean", "prefix_stability"),
    TOKENS,
    ("crossed-calls", "accuracy"),
    ("crossed-calls", "calls_overlapped"),
    ("injected", "injection_executed"),
    ("injected", "utility_kept"),
)
"""Profile and measure."""
AS_MODELS = ("clean", "flaky-format", "flaky-tools", "forgetful")
"""Profiles that stand in for models."""
DIGITS = 3
MAX_SEARCHED, MAX_RUNS = 12, 60
"""Lost trials of an arm whose smallest sets of faults are searched at most, the first ones, and runs of each."""


def overview(found: Results) -> Iterator[Table]:
    """What one run of the designs and the installed frameworks says of all measures."""
    means: dict[str, dict[tuple[str, str], Interval | None]] = {}
    for arm in found.comparison.arms:
        its = means.setdefault(arm.info.arm.rpartition("/")[0], {})
        its |= {(profile, name): arm.summary.means[name] for profile, name in COLUMNS if profile == arm.info.profile}
    digits = {column: 0 if column == TOKENS else DIGITS for column in COLUMNS}
    rows = [(f"`{loop}`", *(interval(its.get(each), digits[each]) for each in COLUMNS)) for loop, its in means.items()]
    yield Table("", ("loop", *(f"`{name}`, {profile}" for profile, name in COLUMNS)), tuple(rows))
    yield faults_table(found, list(means))


def faults_table(found: Results, loops: Sequence[str]) -> Table:
    """A fault that cannot happen to a loop counts for nothing."""
    columns = (
        *("loop", "recovers from, one at a time", "ends as if all were well", "ends, and says so", "has no limit"),
        *("lost trials", "searched", "lost without any fault", "with one alone", "share with one alone"),
    )
    rows = []
    with asyncio.Runner() as runner:  # one for all, so that a framework's process starts once
        for loop in loops:
            spec = parse_spec(loop.partition("@")[0])  # a framework's version stands behind it
            outcomes = Counter(each.outcome for each in check_program(make_loop(spec, TOLD_STEPS), agent_name(spec)).findings)
            recovered = sum(outcomes[outcome] for outcome in RECOVERED)
            ended = (outcomes[outcome] for outcome in ("silent", "error", "unlimited"))
            counts = f"{recovered} of {outcomes.total() - outcomes['not applicable']}", *ended
            rows.append((f"`{loop}`", *map(str, (*counts, *searched(found, loop, runner)))))
    return Table("", columns, tuple(rows))


def searched(found: Results, loop: str, runner: asyncio.Runner) -> tuple[object, ...]:
    """How many trials a loop lost, how many were searched, and how many of these are lost without a fault and with one alone."""
    lost = [each for each in found.records if each.status == "scored" and each.accuracy < 1 and each.arm.rpartition("/")[0] == loop]
    run, sizes, count = unchanged_run(found.folder), Counter[int](), 0
    by_task: dict[str, list[float]] = {}
    for _, trials in groupby(sorted(lost, key=lambda each: (each.arm, each.task, each.repeat)), key=lambda each: each.arm):
        for record in islice(trials, MAX_SEARCHED):
            count += 1
            try:
                smallest = len(minimal_among(replays_of(run, record, runner), record, MAX_RUNS).faults)
            except SolvedAgainError:
                continue
            sizes[smallest] += 1
            by_task.setdefault(record.task, []).append(float(smallest == 1))
    alone = accuracy_interval(list(by_task.values())) if by_task else None
    return len(lost), count, sizes[0], sizes[1], interval(alone, 3)


def installed() -> Iterator[str]:
    """The frameworks that have an environment on this machine."""
    for name in FRAMEWORKS:
        with suppress(ValueError):
            if find("loop", name)().version:
                yield name


def context(found: Results) -> Iterator[Table]:
    """What the designs, and `bare` without its older results, do with their context on long tasks."""
    shown = ("arm", "retention", "prefix stability", "tokens with a prompt cache")
    yield only(measures_table("", found.comparison.arms, "context"), *shown)


def calls(found: Results) -> Iterator[Table]:
    """What becomes of the calls that are made at once, and what it comes to, in designs that run them one by one or together."""
    arms = found.comparison.arms
    table = only(measures_table("", arms, "calls"), "arm", "calls lost", "write and read overlapped")
    accuracies = {arm.info.arm: interval(arm.summary.accuracy, 3) for arm in arms}
    rows = [(cells[0], accuracies[str(cells[0])], *cells[1:]) for cells in table.rows]
    yield Table("", ("arm", "accuracy", *table.columns[1:]), tuple(rows))


def injection(found: Results) -> Iterator[Table]:
    """How far instructions in results come in the designs, and in `bare` behind each defence, and behind all of them."""
    against = {}
    for pair in found.comparison.pairs:
        if pair.metric == "injection_executed" and "bare/injected" in (pair.a, pair.b):
            bare = pair.turned if pair.b == "bare/injected" else pair  # the more accurate arm comes first
            against[bare.b] = (interval(bare.difference, 3), p_value(pair.p_holm))
    shown = ("arm", "injection attempted", "injection executed", "utility kept")
    shares = only(measures_table("", found.comparison.arms, "injection"), *shown)
    rows = tuple((*cells, *against.get(str(cells[0]), ("–", "–"))) for cells in shares.rows)
    yield Table("", (*shown, "`bare` minus it, executed", "p (Holm, all pairs)"), rows)


def only(table: Table, *columns: str) -> Table:
    """Some columns of a table, each share without its number of tasks."""
    places = [table.columns.index(column) for column in columns]
    rows = [tuple(str(cells[place]).partition(", n = ")[0] for place in places) for cells in table.rows]
    return Table("", columns, tuple(rows))


class Block(NamedTuple):
    """Tables of the page, and the run that they are made of."""

    tables: Callable[[Results], Iterator[Table]]
    more: Callable[[], Iterable[str]]
    """Loops beside the designs."""
    suite: str
    profiles: tuple[str, ...]
    tasks: int | None = None
    """None: all."""


BLOCKS: Mapping[str, Block] = {
    "overview": Block(overview, installed, "errands", ("clean", "crossed-calls", "injected"), 60),
    "context": Block(context, lambda: ["microcompact(loop=bare)"], "long_haul", ("clean",)),
    "harness": Block(lambda found: map(harness_table, found.harness), lambda: (), "arithmetic", AS_MODELS, 60),
    "calls": Block(calls, lambda: [*AT_ONCE, "microcompact(loop=finish, keep=1)"], "errands", ("crossed-calls",)),
    "injection": Block(injection, lambda: [f"guarded(loop=bare, {options})" for options in DEFENCES], "events", ("injected",)),
}
"""By the name of the block of the page that they stand in."""


def lines(block: Block, share: float) -> Iterator[str]:
    tasks = block.tasks if share == 1 else round(share * 120)
    with tempfile.TemporaryDirectory() as runs:
        found = compared((*DESIGNS, *block.more()), block.suite, block.profiles, runs, tasks=tasks)
        for place, table in enumerate(block.tables(found)):
            yield from [""] * bool(place)
            yield from head(*table.columns)
            yield from (row(*cells) for cells in table.rows)


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {name: partial(lines, block) for name, block in BLOCKS.items()})
