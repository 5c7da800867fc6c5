"""The tables of docs/measures.md: context, how much of accuracy is the loop, calls at once, and injection; Markdown to stdout.

python benchmarks/measures.py [--share S] [--only NAME …] [--write]

--write renews the tables in docs/measures.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from measures_faults import disclosed, faults_table, searched

import whichloop
from pages import head, make_tables, row
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import harness_table, measures_table
from whichloop.metrics.statistics import Interval
from whichloop.runs.registry import find
from whichloop.text.doc import Table
from whichloop.text.numbers import interval, p_value

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful")
AT_ONCE = ("finish(parallel_tools=true)", "stateless(execution_mode=parallel)")
DEFENCES = (
    "results=marked",
    "results=plain, tools=needed",
    "results=plain, writes=confirmed",
    "results=marked, tools=needed, writes=confirmed",
)
DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")


FRAMEWORKS = ("langchain", "openai_agents", "pydantic_ai")
CLEAN, CROSSED, INJECTED = OVERVIEW_PROFILES = ("clean", "crossed-calls", "injected")
Column = tuple[str, str]
"""Profile and measure."""
COLUMNS: tuple[Column, ...] = (
    (CLEAN, "prefix_stability"),
    (CLEAN, "tokens_with_cache"),
    (CROSSED, "accuracy"),
    (CROSSED, "calls_overlapped"),
    (INJECTED, "injection_executed"),
    (INJECTED, "utility_kept"),
)
DIGITS = 3
Means = Mapping[str, Interval]
"""Loop → mean of one measure, as it is printed."""


def of_overview(tasks: int | None, runs: Path) -> str:
    """What one run of the designs and the installed frameworks says of all measures."""
    return overview(compared((*DESIGNS, *installed()), "errands", OVERVIEW_PROFILES, tasks or 60, runs))


def installed() -> tuple[str, ...]:
    """The frameworks that have an environment on this machine."""
    return tuple(name for name in FRAMEWORKS if _version(name))


def _version(name: str) -> str:
    try:
        return str(find("loop", name)().version)
    except ValueError:
        return ""


def overview(found: Results) -> str:
    """The tables."""
    loops = tuple(dict.fromkeys(arm.info.arm.rpartition("/")[0] for arm in found.comparison.arms))
    means = {column: _means(found, column) for column in COLUMNS}
    return "\n\n".join(map(as_markdown, (_means_table(loops, means), faults_table(disclosed(found), searched(found)))))


def _means_table(loops: Sequence[str], means: Mapping[Column, Means]) -> Table:
    rows = [(f"`{loop}`", *(_printed(means[column].get(loop)) for column in COLUMNS)) for loop in loops]
    return Table("", ("loop", *(f"`{name}`, {profile}" for profile, name in COLUMNS)), tuple(rows))


def _printed(mean: Interval | None) -> str:
    return interval(mean, 0 if mean is not None and mean.value > 1 else DIGITS)


def _means(found: Results, column: Column) -> Means:
    """Loop → mean of a measure under a profile, where it is known, with the digits that are printed."""
    profile, measure = column
    arms = [arm for arm in found.comparison.arms if arm.info.profile == profile]
    known = {arm.info.arm.rpartition("/")[0]: arm.summary.means[measure] for arm in arms}
    return {loop: rounded(mean) for loop, mean in known.items() if mean is not None}


def rounded(mean: Interval) -> Interval:
    """The mean with the digits that are printed."""
    return Interval(round(mean.value, DIGITS), round(mean.low, DIGITS), round(mean.high, DIGITS), mean.n)


def of_context(tasks: int | None, runs: Path) -> str:
    """What the designs, and `bare` without its older results, do with their context on long tasks."""
    found = compared((*DESIGNS, "microcompact(loop=bare)"), "long_haul", ("clean",), tasks, runs)
    shown = ("arm", "retention", "prefix stability", "tokens with a prompt cache")
    return as_markdown(only(measures_table("", found.comparison.arms, "context"), *shown))


def of_harness(tasks: int | None, runs: Path) -> str:
    """How much of accuracy is the design, and how much the fault profile that stands in for a model."""
    found = compared(DESIGNS, "arithmetic", PROFILES, tasks or 60, runs)
    (table,) = map(harness_table, found.harness)
    return as_markdown(table)


def of_calls(tasks: int | None, runs: Path) -> str:
    """What becomes of the calls that are made at once, and what it comes to, in designs that run them one by one or together."""
    arms = compared(
        (*DESIGNS, *AT_ONCE, "microcompact(loop=finish, keep=1)"), "errands", ("crossed-calls",), tasks, runs
    ).comparison.arms
    table = only(measures_table("", arms, "calls"), "arm", "calls lost", "write and read overlapped")
    accuracies = {arm.info.arm: interval(arm.summary.accuracy, 3) for arm in arms}
    rows = [(cells[0], accuracies[str(cells[0])], *cells[1:]) for cells in table.rows]
    return as_markdown(Table("", ("arm", "accuracy", *table.columns[1:]), tuple(rows)))


def of_injection(tasks: int | None, runs: Path) -> str:
    """How far instructions in results come in the designs, and in `bare` behind each defence, and behind all of them."""
    guarded = [f"guarded(loop=bare, {options})" for options in DEFENCES]
    found = compared((*DESIGNS, *guarded), "events", ("injected",), tasks, runs)
    against = {}
    for pair in found.comparison.pairs:
        if pair.metric == "injection_executed" and "bare/injected" in (pair.a, pair.b):
            change, other = pair.difference, pair.b
            if other == "bare/injected":  # the more accurate arm comes first
                change, other = replace(change, value=-change.value, low=-change.high, high=-change.low), pair.a
            against[other] = (interval(change, 3), p_value(pair.p_holm))
    shown = ("arm", "injection attempted", "injection executed", "utility kept")
    shares = only(measures_table("", found.comparison.arms, "injection"), *shown)
    rows = tuple((*cells, *against.get(str(cells[0]), ("–", "–"))) for cells in shares.rows)
    return as_markdown(Table("", (*shown, "`bare` minus it, executed", "p (Holm, all pairs)"), rows))


def compared(loops: tuple[str, ...], suite: str, profiles: tuple[str, ...], tasks: int | None, runs: Path) -> Results:
    """Run loops on a suite."""
    return whichloop.compare(loops, suite, profiles, tasks=tasks, runs=runs, mlflow=False, progress=False).results


def only(table: Table, *columns: str) -> Table:
    """Some columns of a table, each share without its number of tasks."""
    places = [table.columns.index(column) for column in columns]
    rows = [tuple(str(cells[place]).partition(", n = ")[0] for place in places) for cells in table.rows]
    return Table("", columns, tuple(rows))


def as_markdown(table: Table) -> str:
    """The table's rows under its columns, without its title."""
    return "\n".join([*head(*table.columns), *(row(*cells) for cells in table.rows)])


BLOCKS: Mapping[str, Callable[[int | None, Path], str]] = {
    "overview": of_overview,
    "context": of_context,
    "harness": of_harness,
    "calls": of_calls,
    "injection": of_injection,
}
"""Tables by the name of the block of the page that they stand in."""


def lines(make: Callable[[int | None, Path], str], share: float) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return make(None if share == 1 else round(share * 120), Path(folder)).splitlines()


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {name: partial(lines, make) for name, make in BLOCKS.items()})
