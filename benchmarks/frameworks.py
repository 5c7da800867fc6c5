"""Agent frameworks beside our five designs: the same tasks, tools, model and faults; a table of accuracies.

python benchmarks/frameworks.py [--suite NAME …] [--framework NAME …] [--profile NAME …] [--tasks N] [--runs FOLDER] [--write]

Each suite is one run in FOLDER, which goes on where it was interrupted. Frameworks that are not installed are left out, and named:
`whichloop install --all`. --write renews the table of arithmetic in docs/frameworks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import cast

from comparing import DESIGNS
from pages import arguments_of, columns, write_block
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.frameworks.table import Framework
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.statistics import Interval
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import find

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"
RUNS = Path("runs") / "frameworks"
SUITE = "arithmetic"
"""The suite of the page's table."""
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "provider-trouble")
TASKS = 120
ALSO = {"pydantic_ai": ("retries=10",)}
"""What a framework's documentation names beside showing errors: with one retry, its default, a second error ends the run."""


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


def whole_run(settings: CompareConfig) -> Results:
    """Run what is missing of a suite's run, and return its results."""
    known = sorted(settings.runs.glob("*/manifest.json"))
    experiment = reopen(known[-1].parent) if known else prepare(settings)
    run(experiment, Unwatched())
    return results(experiment.folder)


def accuracies(found: Results, profiles: Sequence[str]) -> Iterator[str]:
    """Yield a line for each loop, best under faults first: accuracy under each profile, then tokens under the first."""
    by_loop: dict[str, dict[str, ArmResult]] = {}
    for arm in found.comparison.arms:
        by_loop.setdefault(arm.info.arm.rpartition("/")[0], {})[arm.info.profile] = arm
    rows: list[tuple[float, list[str]]] = []
    for loop, arms in by_loop.items():
        tokens = arms[profiles[0]].summary.means.get("tokens")
        faulty = [arm.summary.accuracy.value for name, arm in arms.items() if name != "clean" and arm.summary.accuracy]
        cells = [*(short(arms[profile].summary.accuracy) for profile in profiles), f"{tokens.value:,.0f}" if tokens else "–", loop]
        rows.append((-sum(faulty), cells))
    yield from columns([[*profiles, "tokens", "loop"], *(cells for _, cells in sorted(rows))])


def short(value: Interval | None) -> str:
    return "–" if value is None else f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]".replace("0.", ".")


def table(found: Results, profiles: Sequence[str]) -> str:
    made = found.manifest
    asked_of = f"{made.suite.tasks} tasks of `{made.suite.name}` {made.suite.version}, seed {made.seed}"
    said = f"{asked_of}; made on {made.created[:10]}; digest `{found.digest[:12]}`."
    return "\n".join([said, "", *accuracies(found, profiles)])


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--suite", action="append")
    parser.add_argument("--framework", action="append")
    parser.add_argument("--profile", action="append")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    given = parser.parse_args()
    loops, profiles = tuple(arms_of(given.framework or builtin_names("framework"))), tuple(given.profile or PROFILES)
    for suite in given.suite or (SUITE,):
        settings = CompareConfig(
            loops=loops, profiles=profiles, suite=suite, tasks=given.tasks, runs=given.runs / suite, mlflow=False
        )
        made = table(whole_run(settings), profiles)
        if given.write and suite == SUITE:
            write_block(PAGE, f"accuracy, {suite}", made)
        print(f"\n## accuracy, {suite}\n\n{made}", flush=True)


if __name__ == "__main__":
    main()
