"""`why` names a defect that was planted into a loop, of every kind, and finds no such thing in the loops as they are.

`python benchmarks/why_mutants.py --write` renews the table of docs/why.md with more tasks, loops and suites.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import block
from benchmarks.why_mutants import DEFECTS, PAGE, counted
from tests.experiments.running import ran
from tests.metrics.lost_trials import Talk, record
from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory.alterations import alterations
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.runs.store.trials import read_trace

MIN_NAMED = 0.93
"""Share of the tasks that a defect cost whose cause is named."""
TASKS = 1
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless", "microcompact(loop=bare)", "repeat_guard(loop=bare)")


def test_planted_defects_that_cost_tasks_are_named() -> None:
    """Those of one loop on one suite that cost something there, which most do."""
    counts = counted(DEFECTS, loops=("bare",), suites=("arithmetic",), tasks=1)
    costly = {defect: found for defect, found in counts.items() if found.lost}
    assert {defect: found.details for defect, found in costly.items() if min(found.named) < MIN_NAMED} == {}
    assert len(costly) > len(DEFECTS) / 2


@pytest.mark.parametrize("loop", ["react_extract", "stateless"])
def test_a_run_that_ends_at_a_call_that_it_did_not_make_ended_too_soon(loop: str) -> None:
    """Also where the loop asks for the answer, or its form, once more."""
    found = counted(["EndedTooSoon"], loops=(loop,), suites=("arithmetic",), tasks=3)["EndedTooSoon"]
    assert (found.lost > 0, found.named) == (True, (1.0, 1.0)), found.details


@pytest.mark.slow
def test_every_planted_defect_costs_tasks_and_is_named() -> None:
    """Each loop on a suite of its own, and where a defect cost nothing on the other one's."""
    lost: set[str] = set()
    own = (("bare", "arithmetic"), ("finish", "events"))
    other = (("finish", "arithmetic"), ("bare", "events"), ("stateless", "library"))
    for loop, suite in (*own, *other):
        tried, tasks = (DEFECTS, 2) if (loop, suite) in own else (sorted(DEFECTS.keys() - lost), 4)
        counts = counted(tried, loops=(loop,), suites=(suite,), tasks=tasks)
        costly = {defect: found for defect, found in counts.items() if found.lost}
        assert {defect: found.details for defect, found in costly.items() if min(found.named) < MIN_NAMED} == {}
        lost |= costly.keys()
    assert lost == DEFECTS.keys()  # of one that costs nothing the law would say nothing


@pytest.mark.parametrize("suite", ["arithmetic", "events"])
def test_a_sound_loop_alters_nothing(tmp_path: Path, suite: str) -> None:
    profiles = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn")
    found = ran(tmp_path, is_compared=False, loops=LOOPS, profiles=profiles, suite=suite, tasks=TASKS)
    altered = {one.key: alterations(TracedTrial(read_trace(found.folder, one), one)) for one in found.records}
    assert len(altered) == TASKS * len(LOOPS) * len(profiles)
    assert {key: each for key, each in altered.items() if each} == {}


def test_the_page_counts_every_kind_and_each_is_named() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \| .* \| ([\d.]+) \|$", block(PAGE, "mutants"), re.MULTILINE)
    causes = Counter[str](kind.cause for kind in DEFECTS.values())
    assert {cause: int(kinds) for cause, kinds, _ in rows} == dict(causes, all=len(DEFECTS))
    assert all(float(worst) >= MIN_NAMED for *_, worst in rows)


SAME = {"a": 12, "b": 2}
RAN: list[tuple[dict[str, Any], list[tuple[dict[str, Any], str, bool]], list[str]]] = [
    ({"a": "12", "b": "2"}, [(SAME, "14", True)], []),  # text that is read as the number it states
    (SAME, [({"a": "12", "b": "2"}, "122", True)], ["altered call"]),
    ({"a": "12", "b": "2"}, [({"a": 13, "b": 2}, "15", True)], ["altered call"]),
    ({"a": 12}, [(SAME, "14", True)], []),  # an argument that is filled in, where the call gave a result
    ({"a": 12}, [({"a": 12, "c": 2}, "no argument c", False)], ["altered call"]),
    (SAME, [(SAME, "down", False), (SAME, "14", True)], []),  # a failed call may be made again by the loop itself
    (SAME, [(SAME, "14", True), (SAME, "14", True)], ["added call"]),
]


@pytest.mark.parametrize(("called", "runs", "causes"), RAN)
def test_what_ran_otherwise_than_it_was_called_is_an_alteration_unless_it_means_the_same(called, runs, causes) -> None:
    talk = Talk().call("add", **called)
    for arguments, data, ok in runs:
        status = "success" if ok else "error"
        talk.events.append({"event": "tool", "tool": "add", "arguments": arguments, "data": data, "status": status})
        talk.tell(data)
    trace = Trace.from_json(talk.answer(14).ends(14))
    assert [each.cause for each in alterations(TracedTrial(trace, record()))] == causes
