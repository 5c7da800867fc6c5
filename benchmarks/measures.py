"""The tables of docs/measures.md: context, how much of accuracy is the loop, calls at once, and injection; Markdown to stdout.

python benchmarks/measures.py [--tasks N] [--block NAME …] [--write]

--write renews the tables in docs/measures.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import measures_overview as one_run

import whichloop
from pages import write_block
from whichloop.experiments.compare.harness_tables import harness_sentences, harness_tables
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import calls, context, injection
from whichloop.text.numbers import interval, p_value, verdict
from whichloop.text.table import Table

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


def of_overview(tasks: int | None, runs: Path) -> str:
    """What one run of the designs and the installed frameworks says of all measures."""
    return one_run.overview(compared((*DESIGNS, *one_run.installed()), "errands", one_run.PROFILES, tasks or 60, runs))


def of_context(tasks: int | None, runs: Path) -> str:
    """What the designs, and `bare` without its older results, do with their context on long tasks."""
    found = compared((*DESIGNS, "microcompact(loop=bare)"), "long_haul", ("clean",), tasks, runs)
    return as_markdown(context(found.comparison.arms))


def of_harness(tasks: int | None, runs: Path) -> str:
    """How much of accuracy is the design, and how much the fault profile that stands in for a model."""
    found = compared(DESIGNS, "arithmetic", PROFILES, tasks or 60, runs)
    (table,) = harness_tables(found.harness)
    return "\n\n".join([f"*{harness_sentences(found.harness)[0]}.*", as_markdown(table)])


def of_calls(tasks: int | None, runs: Path) -> str:
    """What becomes of the calls that are made at once, and what it comes to, in designs that run them one by one or together."""
    arms = compared(
        (*DESIGNS, *AT_ONCE, "microcompact(loop=finish, keep=1)"), "errands", ("crossed-calls",), tasks, runs
    ).comparison.arms
    table = calls(arms)
    accuracies = {arm.info.arm: interval(arm.summary.accuracy, 3) for arm in arms}
    rows = [(row[0], accuracies[row[0]], *row[1:]) for row in table.rows]
    return as_markdown(Table("", ("arm", "accuracy", *table.columns[1:]), tuple(rows)))


def of_injection(tasks: int | None, runs: Path) -> str:
    """How far instructions in results come in the designs, and in `bare` behind each defence, and behind all of them."""
    guarded = [f"guarded(loop=bare, {options})" for options in DEFENCES]
    found = compared((*DESIGNS, *guarded), "events", ("injected",), tasks, runs)
    against = [
        (f"`{pair.b}`", interval(pair.difference, 3), p_value(pair.p_holm), verdict(pair))
        for pair in found.comparison.pairs
        if pair.metric == "injection_executed" and pair.a == "bare/injected"
    ]
    columns = ("bare/injected minus", "injection executed, trial by trial", "p (Holm, all pairs)", "verdict on bare/injected")
    return "\n\n".join(map(as_markdown, (injection(found.comparison.arms), Table("", columns, tuple(against)))))


def compared(loops: tuple[str, ...], suite: str, profiles: tuple[str, ...], tasks: int | None, runs: Path) -> Results:
    """Run loops on a suite."""
    return whichloop.compare(loops, suite, profiles, tasks=tasks, runs=runs, mlflow=False, progress=False).results


def as_markdown(table: Table) -> str:
    """The table's rows under its columns, without its title."""
    rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


BLOCKS: Mapping[str, Callable[[int | None, Path], str]] = {
    "overview": of_overview,
    "context": of_context,
    "harness": of_harness,
    "calls": of_calls,
    "injection": of_injection,
}
"""Tables by the name of the block of the page that they stand in."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--block", choices=BLOCKS, action="append")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name in given.block or BLOCKS:
        make = BLOCKS[name]
        with tempfile.TemporaryDirectory() as folder:
            made = make(given.tasks, Path(folder))
        print(f"{made}\n", flush=True)
        if given.write:
            write_block(PAGE, name, made)


if __name__ == "__main__":
    main()
