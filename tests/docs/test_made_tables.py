"""Tables that programs of benchmarks/ write into pages: their rows are those of the program, and say what the pages say of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import block, cells
from tests.benchmarks import load_benchmark
from tests.docs.pages import ROOT
from whichloop.experiments.compare.results import results
from whichloop.runs.registry import generated_suites

MEASURES, SENSITIVITY, SEPARATION, SPEED, VALIDITY, OTHER, COMPARING, HOSTILE = map(
    load_benchmark, ("measures", "sensitivity", "separation", "run", "validity", "other_policy", "comparing", "hostile_replies")
)


# --- measures ---

Table = dict[str, dict[str, str]]
"""First cell of a row, without its profile → column → cell."""


def of_measures(name: str) -> list[Table]:
    made = []
    for text in re.findall(r"(?:^\|.*\n)+", block(MEASURES.PAGE, name), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
        made.append({row[0].strip("`").partition("/")[0]: dict(zip(head, row, strict=True)) for row in rows})
    return made


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", cell)]


def test_each_loop_of_the_overview_is_struck_and_searched() -> None:
    made = re.findall(r"<!-- (\w+): python benchmarks/measures\.py ", MEASURES.PAGE.read_text("utf-8"))
    assert sorted(made) == sorted(MEASURES.BLOCKS)
    means, faults = of_measures("overview")
    assert {*MEASURES.DESIGNS} <= means.keys() == faults.keys()
    for row in faults.values():
        recovered, possible = numbers(row["recovers from, one at a time"])
        outcomes = ("ends as if all were well", "ends, and says so", "has no limit")
        assert recovered + sum(int(row[outcome]) for outcome in outcomes) == possible
        columns = ("lost without any fault", "with one alone", "searched", "lost trials")
        without, alone, searched, lost = (int(row[name]) for name in columns)
        assert without + alone <= searched <= lost


def test_what_the_page_says_of_context_and_of_calls_at_once() -> None:
    (context,), (calls,) = of_measures("context"), of_measures("calls")
    kept = {loop: numbers(row["retention"])[0] for loop, row in context.items()}
    assert {loop for loop, share in kept.items() if share < 1} == {"stateless", "microcompact(loop=bare)"}
    for loop, at_once in zip(("finish", "stateless"), MEASURES.AT_ONCE, strict=True):
        overlapped = [numbers(calls[each]["write and read overlapped"])[0] for each in (loop, at_once)]
        assert overlapped == [0, 1]
        assert numbers(calls[at_once]["accuracy"])[2] < numbers(calls[loop]["accuracy"])[1]
    assert {calls[loop]["write and read overlapped"] for loop in ("bare", "phased", "react_extract")} == {"–"}


# --- sensitivity ---


def test_every_profile_of_the_table_of_sensitivity_is_there() -> None:
    assert [row[1] for row in cells(SENSITIVITY.PAGE, "sensitivity")[1:]] == [*SENSITIVITY.PROFILES]


# --- which suite tells which designs apart ---

SHOWN = block(SEPARATION.PAGE, "separation").strip()


def test_every_suite_has_its_row() -> None:
    _, _, *rows = SHOWN.splitlines()
    assert [row.split(" | ")[0].strip("| `") for row in rows] == sorted(generated_suites())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("suite", sorted(generated_suites()))
def test_all_rows_are_what_the_command_gives(suite: str) -> None:
    assert SEPARATION.suite_row(suite) in SHOWN.splitlines()


# --- speed: times are never looked at ---


def speed_tables(text: str) -> dict[str, list[list[str]]]:
    """Title → the rows of its table, heads first."""
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {title: [re.split(r" {2,}", line) for line in rest.split("```")[1].splitlines()[1:]] for title, _, rest in parts}


def heads(sizes: Any) -> dict[str, tuple[str, ...]]:
    titles = [f"{flight} in flight, {sizes.latency_ms} ms per model call" for flight in sizes.flights]
    return {"What a trial costs": SPEED.COST, **dict.fromkeys(titles, SPEED.WAITING)}


def test_the_page_on_speed_has_every_program_with_the_versions_that_it_needs() -> None:
    found = block(SPEED.PAGE, "speed")
    shown = speed_tables(found)
    assert {title: tuple(rows[0]) for title, rows in shown.items()} == heads(SPEED.Sizes())
    cost, *others = shown.values()
    assert [row[0] for row in cost[1:]] == [program.name for program in SPEED.ALL]
    assert all([row[0] for row in rows[1:]] == [each.name for each in SPEED.ALL if not each.is_peer] for rows in others)
    assert all(re.search(rf"\b{name} \d", found) for program in SPEED.ALL for name in program.needs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_programs_run() -> None:
    """Peers are left out where they are not installed."""
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = speed_tables(done.stdout)
    assert {title: tuple(rows[0]) for title, rows in shown.items()} == heads(SPEED.QUICK)
    assert all(len(rows) > 8 and all(map(all, rows)) for rows in shown.values())


# --- validity ---


def accuracies(temper: Any, folder: Path) -> dict[str, float]:
    with OTHER.in_the_tunnels_place(temper):
        found = results(COMPARING.folder_of_run(COMPARING.DESIGNS, "arithmetic(size=6)", ["clean"], folder))
    means = {arm.info.loop: arm.summary.accuracy for arm in found.comparison.arms}
    return {loop: mean.value for loop, mean in means.items() if mean is not None}


def test_the_other_model_solves_what_it_does_not_spoil(tmp_path: Path) -> None:
    assert accuracies(OTHER.Temper("careful"), tmp_path / "good") == dict.fromkeys(COMPARING.DESIGNS, 1.0)
    assert sum(accuracies(OTHER.Temper("hopeless", miscopies=1.0), tmp_path / "bad").values()) < 2.5


def test_every_row_of_the_table_of_validity_is_there() -> None:
    table = block(VALIDITY.PAGE, "validity")
    for under in (*(f"`{profile}`" for profile in VALIDITY.PROFILES), *(f"the other policy, {one.name}" for one in OTHER.TEMPERS)):
        assert f"\n| {under} | " in table
    assert f"{VALIDITY.TASKS} tasks" in table


def test_the_page_shows_the_count_of_hostile_replies_so_far() -> None:
    counted = HOSTILE.Count.kept()
    assert block(HOSTILE.PAGE, "hostile").strip().splitlines() == [*counted.table()]
    assert counted.replies > 50_000
    assert all(sum(count["stops"].values()) == count["runs"] for count in counted.designs.values())
