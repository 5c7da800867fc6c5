"""`why` names a defect that was planted into a loop, of every kind, and finds no such thing in the loops as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.loop_defects import DEFECTS
from benchmarks.loop_mutants import Mutant
from benchmarks.pages import block
from benchmarks.why_mutants import PAGE, counted
from tests.metrics.lost_trials import Talk, record
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.loops.bare import Bare
from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory.alterations import alterations
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_trace

MIN_NAMED = 0.93
"""Share of the tasks that a defect cost whose cause is named."""


TASKS = 1


LOOPS = ("bare", "finish", "phased", "react_extract", "stateless", "microcompact(loop=bare)", "repeat_guard(loop=bare)")


def test_planted_defects_that_cost_tasks_are_named() -> None:
    counts = counted(DEFECTS, loops=("bare",), suites=("arithmetic",), tasks=1)
    costly = {defect: found for defect, found in counts.items() if found.lost}
    assert {defect: found.details for defect, found in costly.items() if min(found.named) < MIN_NAMED} == {}
    assert len(costly) > len(DEFECTS) / 2


@pytest.mark.parametrize("loop", ["react_extract", "stateless"])
def test_a_run_that_ends_at_a_call_that_it_did_not_make_ended_too_soon(loop: str) -> None:
    found = counted(["EndedTooSoon"], loops=(loop,), suites=("arithmetic",), tasks=3)["EndedTooSoon"]
    assert (found.lost > 0, found.named) == (True, (1.0, 1.0)), found.details


@pytest.mark.slow
def test_every_planted_defect_costs_tasks_and_is_named() -> None:
    lost: set[str] = set()
    own, other = (("bare", "arithmetic"), ("finish", "events")), (("finish", "arithmetic"), ("bare", "events"))
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
    made = prepare(CompareConfig(loops=LOOPS, profiles=profiles, suite=suite, tasks=TASKS, runs=tmp_path, mlflow=False))
    run(made, Unwatched())
    found = results(made.folder, paired=False)
    altered = {one.key: alterations(TracedTrial(read_trace(found.folder, one), one)) for one in found.records}
    assert len(altered) == TASKS * len(LOOPS) * len(profiles)
    assert {key: each for key, each in altered.items() if each} == {}


def test_the_page_lists_every_kind_and_each_is_named() -> None:
    rows = re.findall(r"^\| ([^|]+?) \| [a-z ]+ \| (\d+) \| (\d+) \| (\d+) \|", block(PAGE, "mutants"), re.MULTILINE)
    assert [row[0] for row in rows] == [kind.says for kind in DEFECTS.values()]
    assert len(rows) >= 20
    for what, lost, against, alone in rows:
        unnamed = int(lost) - min(int(against), int(alone))
        assert min(int(against), int(alone)) > 0, what
        assert unnamed <= max(1, (1 - MIN_NAMED) * int(lost)), what  # of a dozen, one is more than 7 %


def altered(talk: Talk, answer: Any = 14) -> list[str]:
    trace = Trace.from_json(talk.answer(answer).ends(answer))
    return [each.cause for each in alterations(TracedTrial(trace, record()))]


def ran_as(talk: Talk, tool: str, data: str, *, ok: bool = True, **arguments: Any) -> Talk:
    """Let a tool run with other arguments than the last call's."""
    talk.events.append(
        {"event": "tool", "tool": tool, "arguments": arguments, "data": data, "status": "success" if ok else "error"}
    )
    return talk.tell(data)


def test_a_run_that_ends_at_a_call_that_never_ran_ended_too_soon_and_at_one_that_had_run_it_did_not() -> None:
    """Also where the loop asks for the answer in a request of its own."""
    answer = "not determined"
    once = ("mul", {"a": 3, "b": 4})
    for more, expected in (((("add", {"a": 12, "b": 2}),), ["termination"]), ((once,), []), ((), [])):
        talk = Talk().call(once[0], **once[1]).ran("12")
        for tool, arguments in more:
            talk = talk.call(tool, **arguments)
        talk.ask("answer", reply=answer, move={"move": "answer", "value": answer})
        found = alterations(TracedTrial(Trace.from_json(talk.ends(answer)), record(plan_unseen=True)))
        assert [each.cause for each in found] == expected


def test_what_is_read_filled_in_or_made_again_is_no_alteration_and_what_ran_otherwise_is() -> None:
    def told(given: dict[str, Any], data: str, *, ok: bool = True, **ran: Any) -> list[str]:
        return altered(ran_as(Talk().call("add", **given), "add", data, ok=ok, **ran))

    assert told({"a": "12", "b": "2"}, "14", a=12, b=2) == []  # a text is read as the number that it states
    assert told({"a": 12, "b": 2}, "122", a="12", b="2") == ["altered call"]
    assert told({"a": "12", "b": "2"}, "15", a=13, b=2) == ["altered call"]
    assert told({"a": 12}, "14", a=12, b=2) == []  # filled in, and the call gave a result
    assert told({"a": 12}, "no argument c", ok=False, a=12, c=2) == ["altered call"]
    for ok, expected in ((False, []), (True, ["added call"])):  # one that failed may be made again
        first = ran_as(Talk().call("add", a=12, b=2), "add", "14", ok=ok, a=12, b=2)
        assert altered(ran_as(first, "add", "14", a=12, b=2)) == expected
    assert altered(ran_as(Talk().ask(reply="calling add"), "add", "14", a=1, b=2)) == []  # no codec says what the model wrote
    with pytest.raises(ValueError, match=r"defect must be one of SwappedValues, .* not 'Nope'"):
        Mutant(Bare(), "Nope")
