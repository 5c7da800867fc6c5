"""Agent frameworks beside our five designs: the same tasks, tools, model and faults; a table of accuracies.

python benchmarks/frameworks.py [--suite NAME …] [--framework NAME …] [--profile NAME …] [--tasks N] [--runs FOLDER] [--write]

Each suite is one run in FOLDER, which goes on where it was interrupted. Frameworks that are not installed are left out, and named:
`whichloop install --all`. --write renews the table of arithmetic in docs/frameworks.md, and the picture.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

from markupsafe import Markup

from pages import columns, write_block
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.frameworks.table import Framework
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.statistics import Interval
from whichloop.reports.html.svg import LABEL_CHARS, Scale, chart, element, gridlines, middle_cut, percent, scale, standalone
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import find

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"
PICTURE = PAGE.with_name("frameworks.svg")
RUNS = Path("runs") / "frameworks"
SUITE = "arithmetic"
"""The suite of the page's table, and of its picture."""
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "provider-trouble")
DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")
TASKS = 120
ALSO = {"pydantic_ai": ("retries=10",)}
"""What a framework's documentation names beside showing errors: with one retry, its default, a second error ends the run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    suites: Sequence[str]
    profiles: Sequence[str]
    loops: Sequence[str]
    tasks: int
    runs: Path
    writes: bool
    """Whether the page and the picture are renewed."""


def arms_of(names: Sequence[str]) -> Iterator[str]:
    """Our designs with the retries that clients make by default, then each installed framework: by default, and as documented."""
    yield from (f"provider_retry(loop={name})" for name in DESIGNS)
    for name in names:
        framework = find("loop", name)
        try:
            print(f"{name} {framework().version}", file=sys.stderr)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        yield name
        cures = [f"{field.name}=shown" for field in fields(cast(type[Framework], framework)) if "shown" in str(field.type)]
        if cures:
            yield f"{name}({', '.join([*cures, *ALSO.get(name, ())])})"


def whole_run(suite: str, asked: Asked) -> Results:
    """Run what is missing of a suite's run, and return its results."""
    folder = asked.runs / suite
    known = sorted(folder.glob("*/manifest.json"))
    settings = CompareConfig(
        loops=tuple(asked.loops), profiles=tuple(asked.profiles), suite=suite, tasks=asked.tasks, runs=folder, mlflow=False
    )
    experiment = reopen(known[-1].parent) if known else prepare(settings)
    run(experiment, Unwatched())
    return results(experiment.folder)


def by_loop(found: Results) -> dict[str, dict[str, ArmResult]]:
    """Loop → profile → what the arm gave, in the order of the arms."""
    made: dict[str, dict[str, ArmResult]] = {}
    for arm in found.comparison.arms:
        made.setdefault(arm.info.arm.rpartition("/")[0], {})[arm.info.profile] = arm
    return made


def interval(value: Interval | None, digits: int = 2) -> str:
    if value is None:
        return "–"
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def accuracies(found: Results, profiles: Sequence[str]) -> Iterator[str]:
    """Yield a line for each loop, best under faults first: accuracy under each profile, then tokens under the first."""
    rows: list[tuple[float, list[str]]] = []
    for loop, arms in by_loop(found).items():
        tokens = arms[profiles[0]].summary.means.get("tokens")
        faulty = [arm.summary.accuracy.value for name, arm in arms.items() if name != "clean" and arm.summary.accuracy]
        cells = [*(short(arms[profile].summary.accuracy) for profile in profiles), f"{tokens.value:,.0f}" if tokens else "–", loop]
        rows.append((-sum(faulty), cells))
    yield from columns([[*profiles, "tokens", "loop"], *(cells for _, cells in sorted(rows))])


def short(value: Interval | None) -> str:
    return interval(value).replace("0.", ".")


def tables(asked: Asked) -> Iterator[tuple[str, str]]:
    """Name of a block of the page → its Markdown."""
    for suite in asked.suites:
        found = whole_run(suite, asked)
        made = found.manifest
        asked_of = f"{made.suite.tasks} tasks of `{suite}` {made.suite.version}, seed {made.seed}"
        said = f"{asked_of}; made on {made.created[:10]}; digest `{found.digest[:12]}`."
        if suite == SUITE and asked.writes and set(MARKS) <= set(asked.profiles):
            PICTURE.write_text(picture(found), encoding="utf-8")
        yield f"accuracy, {suite}", "\n".join([said, "", *accuracies(found, asked.profiles)])


# --- the picture ---

ROW, TOP = 22.0, 46.0
"""Height of a row, and of what stands above the first, in pixels."""
MARKS: Mapping[str, tuple[str, float]] = {"flaky-format": ("mark", -4.0), "flaky-tools": ("mark undecided", 4.0)}
"""Profile → its mark, and how far it stands from the middle of its row."""


def picture(found: Results) -> str:
    """Draw each loop's accuracy under the two profiles of MARKS, with intervals; the best first."""
    arms = {loop: [by[profile].summary.accuracy for profile in MARKS] for loop, by in by_loop(found).items()}
    ordered = sorted(arms, key=lambda loop: -sum(value.value for value in arms[loop] if value))
    axis = scale([0.3, 1.0], left=42.0)
    bottom = TOP + ROW * len(ordered)
    drawn = [gridlines(axis, TOP - 8, bottom)]
    for place, (profile, (mark, _)) in enumerate(MARKS.items()):
        x = 42.0 + 24 * place
        drawn += [element("circle", cx=percent(x), cy=14, r=4.5, class_=mark), element("text", profile, x=percent(x + 1.5), y=18)]
    for place, loop in enumerate(ordered):
        middle = TOP + ROW * (place + 0.5)
        drawn.append(element("text", middle_cut(loop, LABEL_CHARS), x=0, y=middle + 4))
        drawn += [mark for one in zip(arms[loop], MARKS.values(), strict=True) for mark in marks(axis, middle, *one)]
    words = "; ".join(f"{loop} {' and '.join(interval(value) for value in arms[loop])}" for loop in ordered)
    suite = found.manifest.suite
    title = f"Accuracy on {suite.tasks} tasks of {suite.name} under {' and '.join(MARKS)}"
    return standalone(chart(title, words, bottom + 22, *drawn), 760) + "\n"


def marks(axis: Scale, middle: float, value: Interval | None, look: tuple[str, float]) -> Iterator[Markup]:
    """Yield a mark and the line of its interval."""
    mark, shift = look
    if value is None:
        return
    low, high = (percent(axis.at(bound)) for bound in (value.low, value.high))
    yield element("line", x1=low, x2=high, y1=middle + shift, y2=middle + shift, class_="error")
    yield element("circle", cx=percent(axis.at(value.value)), cy=middle + shift, r=4, class_=mark)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append")
    parser.add_argument("--framework", action="append")
    parser.add_argument("--profile", action="append")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    loops = tuple(arms_of(given.framework or builtin_names("framework")))
    asked = Asked(given.suite or (SUITE,), given.profile or PROFILES, loops, given.tasks, given.runs, given.write)
    for name, table in tables(asked):
        if given.write and name == f"accuracy, {SUITE}":
            write_block(PAGE, name, table)
        print(f"\n## {name}\n\n{table}", flush=True)


if __name__ == "__main__":
    main()
