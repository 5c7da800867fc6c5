"""Agent frameworks beside our five designs: accuracies on the same tasks, and what each does with one fault at a time; Markdown.

python benchmarks/frameworks.py [--share S] [--only NAME …] [--write]

Frameworks that are not installed are left out, and named: `whichloop install --all`. The accuracies are those of one run in
runs/frameworks, which goes on where it was interrupted. --write renews the tables in docs/frameworks.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from textwrap import wrap
from typing import cast

from comparing import DESIGNS
from pages import columns, make_tables
from whichloop.checks.program import ProgramReport, Trouble, check_program
from whichloop.checks.program.naming import TOLD_STEPS
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.frameworks.table import Framework
from whichloop.metrics.comparison import ArmResult
from whichloop.protocol.names import parse_spec
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import find, make_loop
from whichloop.text.numbers import hundredths, interval_of

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"
RUNS = Path("runs") / "frameworks"
SUITE = "arithmetic"
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "provider-trouble")
TASKS = 120
ALSO = {"pydantic_ai": ("retries=10",)}
"""What a framework's documentation names beside showing errors: with one retry, its default, a second error ends the run."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "calls": ("cut_json", "cut_length", "list_arguments", "missing_argument", "extra_argument", "wrong_type", "unknown_tool"),
    "replies": ("duplicate_ids", "two_calls", "empty", "prose", "refusal", "never_finishes", "repeats"),
    "tools": ("one_of_two_fails", "tool_raises", "tool_hangs", "huge_result"),
    "at once": ("late_first", "write_and_read", "one_of_two_hangs"),
    "provider": ("rate_limit", "server_error_once", "server_error_always", "dropped", "garbled", "cut_stream"),
}
"""Table → its faults."""
WIDTH = 60
"""Of the column of agents."""
MARKS = {"silent": "SILENT", "unlimited": "UNLIMITED", "not applicable": "–"}


@cache
def loops() -> tuple[str, ...]:
    """Our designs with the retries that clients make by default, then each installed framework: by default, and as documented."""
    found = [f"provider_retry(loop={name})" for name in DESIGNS]
    for name in builtin_names("framework"):
        framework = find("loop", name)
        try:
            print(f"{name} {framework().version}", file=sys.stderr)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        cures = [f"{field.name}=shown" for field in fields(cast(type[Framework], framework)) if "shown" in str(field.type)]
        found += [name, f"{name}({', '.join([*cures, *ALSO.get(name, ())])})"] if cures else [name]
    return tuple(found)


# --- accuracies ---


def accuracies(share: float) -> Iterator[str]:
    """Yield a line for each loop, best under faults first: accuracy under each profile, then tokens under the first."""
    tasks = round(share * TASKS)
    folder = RUNS / f"{SUITE}-{tasks}"
    known = sorted(folder.glob("*/manifest.json"))
    settings = CompareConfig(loops=loops(), profiles=PROFILES, suite=SUITE, tasks=tasks, runs=folder, mlflow=False)
    experiment = reopen(known[-1].parent) if known else prepare(settings)
    run(experiment, Unwatched())
    found = results(experiment.folder)
    made = found.manifest
    asked_of = f"{made.suite.tasks} tasks of `{made.suite.name}` {made.suite.version}, seed {made.seed}"
    yield from (f"{asked_of}; made on {made.created[:10]}; digest `{found.digest[:12]}`.", "")
    by_loop: dict[str, dict[str, ArmResult]] = {}
    for arm in found.comparison.arms:
        by_loop.setdefault(arm.info.arm.rpartition("/")[0], {})[arm.info.profile] = arm
    rows: list[tuple[float, list[str]]] = []
    for loop, arms in by_loop.items():
        tokens = arms[PROFILES[0]].summary.means["tokens"]
        faulty = [arm.summary.accuracy.value for name, arm in arms.items() if name != "clean" and arm.summary.accuracy]
        means = [arms[profile].summary.accuracy for profile in PROFILES]
        cells = [interval_of(mean, hundredths) if mean else "–" for mean in means]
        rows.append((-sum(faulty), [*cells, f"{tokens.value:,.0f}" if tokens else "–", loop]))
    yield from columns([[*PROFILES, "tokens", "loop"], *(cells for _, cells in sorted(rows))])


# --- faults ---


@cache
def reports() -> Mapping[str, ProgramReport]:
    """Loop → what it does with every fault."""
    found = {}
    for loop in loops():
        try:
            found[loop] = check_program(make_loop(parse_spec(loop), TOLD_STEPS), loop)
        except Trouble as trouble:
            print(f"left out: {loop}: {trouble}", file=sys.stderr)
    return found


def faults(group: str, share: float) -> Iterator[str]:
    """Lines for the agents that do the same in every fault. Where the arms of a framework differ, its name says which one it is."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for loop, report in reports().items():
        by_fault = {finding.fault: finding.outcome for finding in report.findings}
        alike.setdefault(tuple(MARKS.get(by_fault[fault], by_fault[fault]) for fault in GROUPS[group]), []).append(loop)
    rows = [[*GROUPS[group], "agents"]]
    for outcomes, same in alike.items():
        first, *more = wrap(", ".join(dict.fromkeys(named(loop, same, reports()) for loop in same)), WIDTH)
        rows += [[*outcomes, first], *([""] * len(outcomes) + [line] for line in more)]
    yield from columns(rows)


def named(loop: str, alike: Sequence[str], found: Iterable[str]) -> str:
    """Return a design's name, or a framework's with the reading of tools' errors, where its arms differ."""
    if design := re.fullmatch(r"provider_retry\(loop=(\w+)\)", loop):
        return design[1]
    name = loop.partition("(")[0]
    differ = {each for each in found if each.partition("(")[0] == name} - {*alike}
    return f"{name}({'shown' if 'shown' in loop else 'default'})" if differ else name


TABLES: Mapping[str, Callable[[float], Iterator[str]]] = {
    f"accuracy, {SUITE}": accuracies,
    **{f"faults, {group}": partial(faults, group) for group in GROUPS},
}

if __name__ == "__main__":
    make_tables(__doc__, PAGE, TABLES)
