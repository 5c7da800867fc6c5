"""Plans learned from a run, each rule by example."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.experiments.learn_plans.helpers import DESIGNS, learned, ran, read, replanned, without_plans
from tests.kept import put
from whichloop.checks.suite import task_problems
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite
from whichloop.runs.store.trials import read_trace


def record_of(number: int) -> dict[str, Any]:
    """The record of a number."""
    return {"code": f"code-{number}", "number": number}


def price_of(code: str) -> float:
    """What it costs."""
    return 100.5 + int(code.removeprefix("code-"))


class Counter:
    """A world that counts what was bought, with an end state."""

    def __init__(self) -> None:
        self.bought: list[str] = []
        self.tools = tuple(
            Tool.from_function(function, blocking=False) for function in (record_of, price_of, self.buy, self.draw_id)
        )

    drawn = 0

    def draw_id(self) -> dict[str, str]:
        """A new id, never the same."""
        Counter.drawn += 1
        return {"id": f"drawn-{Counter.drawn}"}

    def buy(self, code: str) -> str:
        """Buy one."""
        self.bought.append(code if code.startswith("code") else "drawn")
        return f"bought {len(self.bought)}"

    def state(self) -> Any:
        return self.bought

    def close(self) -> None:
        return None


def shop(*plans: Plan, expected: Any = 112.5, **changes: Any) -> Suite:
    tasks = tuple(
        replace(Task(f"t{number}", Query(f"What of number {number}?"), expected, "numeric", plan), **changes)
        for number, plan in enumerate(plans)
    )
    return Suite("shop", "1", tasks, lambda _: Counter())


PRICE = Plan(
    (
        PlannedCall("a", "record_of", {"number": 12}, "Get the record."),
        PlannedCall("b", "price_of", {"code": Ref("a", ("code",))}, "Get its price."),
    ),
    Ref("b"),
)

BOUGHT = Plan((*PRICE.calls, PlannedCall("d", "buy", {"code": Ref("a", ("code",))}, "Buy it now.", after=("b",))), Ref("b"))


def replace_answer(plan: Plan, answer: Any) -> Plan:
    return Plan(plan.calls, answer)


def test_the_successful_trial_with_the_fewest_calls_is_taken_and_the_next_where_it_teaches_nothing(tmp_path):
    suite = shop(BOUGHT)
    folder = ran(tmp_path, suite, ("bare", "finish"))
    more = ran(tmp_path, shop(PRICE), ("bare",))
    none = ran(tmp_path, shop(Plan((), 112.5)), ("react_extract",))
    both = joined(tmp_path / "both", folder, more, none)
    (lesson,) = learned(both, suite).lessons
    assert [call.tool for call in lesson.plan.calls] == ["record_of", "price_of"]
    assert lesson.trial == "bare/again/t0/0"


def joined(folder: Path, *runs: Path) -> Path:
    """Trials of several runs in one, those of the later ones under arms of their own."""
    folder.mkdir()
    records, traces = [], []
    for number, other in enumerate(runs):
        for found in read(other):
            trace = read_trace(other, found)
            arm = found.arm if number == 0 else "bare/again" if number == 1 else "a/first"
            traces.append(json.dumps(trace.to_json() | {"arm": arm}).encode() + b"\n")
            records.append(replace(found, arm=arm))
    put(folder, records, traces)
    return folder


def refuse(code: str) -> float:
    """What it costs."""
    raise LookupError("closed today")


def test_a_reference_that_a_replay_refutes_becomes_a_literal_and_is_listed(tmp_path):
    def told(number: int):
        """A record, as text that is JSON and does not say so."""
        return json.dumps(record_of(number))

    tools = (Tool.from_function(told, name="record_of"), *Counter().tools[1:])
    plan = Plan(
        (
            PRICE.calls[0],
            PlannedCall("b", "price_of", {"code": "code-12"}, "Get its price.", after=("a",)),
            PlannedCall("c", "draw_id", {}, "Draw an id.", after=("b",)),
            PlannedCall("d", "buy", {"code": Ref("c", ("id",))}, "Buy it."),
        ),
        Ref("b"),
    )
    suite = replace(shop(plan), open=lambda _: StatelessEnvironment(tools))
    folder = ran(tmp_path, suite)
    (lesson,) = learned(folder, suite).lessons
    assert lesson.plan.calls[1].arguments == {"code": Ref("c1", ("code",))}  # trusted, and wrong
    (lesson,) = learned(folder, suite, check=True).lessons
    assert lesson.plan.calls[1].arguments == {"code": "code-12"}
    assert lesson.plan.calls[1].after == ("c1",)
    assert lesson.plan.calls[3].arguments == {"code": Ref("c3", ("id",))}  # of another call: it replays
    assert [(kept.call, kept.argument, kept.value) for kept in lesson.fixed_values] == [("c2", "code", "code-12")]


def test_what_a_fault_spoiled_is_never_learned(tmp_path):
    suite = make_suite(parse_spec("arithmetic(size=8)"))
    folder = ran(tmp_path, suite, DESIGNS, profiles=("flaky-tools",))
    found = learned(folder, suite, check=True)
    assert len(found.lessons) >= 5
    assert task_problems(replanned(suite, found)) == []
    assert all("spoiled" in why or "not solved" in why for why in found.not_learned.values())


def test_a_plan_is_learned_with_references_for_calls_and_for_the_answer_that_the_scorer_takes(tmp_path):
    exact = shop(PRICE)
    rounded = shop(replace_answer(PRICE, 112.5), expected=112.504, scorer="numeric(tolerance=0.01)")
    for suite in (exact, rounded):
        (task,) = learned(ran(tmp_path, suite), suite).tasks
        assert task.plan is not None
        assert [(call.tool, dict(call.arguments)) for call in task.plan.calls] == [
            ("record_of", {"number": 12}),
            ("price_of", {"code": Ref("c1", ("code",))}),
        ]
        assert task.plan.answer == Ref("c2")


def test_a_task_without_an_answer_is_learned_without_any_call_and_one_that_was_answered_without_a_call_is_not(tmp_path):
    unanswerable, guessed = shop(Plan((), None), expected=None), shop(Plan((), 112.5))
    (task,) = learned(ran(tmp_path, unanswerable), unanswerable, check=True).tasks
    assert task.plan == Plan((), None)
    found = learned(ran(tmp_path, guessed), without_plans(guessed))
    why = "no calls: cannot be learned"
    assert (found.not_learned, found.tasks[0].plan, found.tasks[0].no_plan) == ({"t0": why}, None, why)


def test_tasks_that_were_not_solved_not_run_or_are_quarantined_say_so_and_keep_the_plan_that_they_had(tmp_path):
    good, wrong = shop(PRICE, replace_answer(PRICE, 1.0), PRICE, PRICE), "not solved in run-0"
    tasks = (*good.tasks[:3], replace(good.tasks[3], quarantined="ambiguous"))
    suite = replace(good, tasks=tasks)
    folder = ran(tmp_path, replace(good, tasks=(tasks[0], tasks[1], tasks[3])))
    found = learned(folder, without_plans(suite))
    assert found.not_learned == {"t1": wrong, "t2": "not run in run-0", "t3": "quarantined: ambiguous"}
    assert [(task.plan, task.no_plan) for task in found.tasks[1:3]] == [(None, wrong), (None, "not run in run-0")]
    kept = learned(folder, suite)
    assert kept.not_learned["t1"] == f"{wrong}; it keeps the plan that it had"
    assert kept.tasks[1] == suite.tasks[1]


def test_a_check_holds_end_states_and_ids_that_are_drawn_anew_against_the_replay_and_drops_what_does_not_replay(tmp_path):
    suite = shop(BOUGHT, end_state=["code-12"])
    folder = ran(tmp_path, suite)
    (task,) = learned(folder, suite, check=True).tasks
    assert task.end_state == ["code-12"]
    assert task.plan is not None
    assert task.plan.calls[-1].after == ("c2",)
    failing = (*Counter().tools[:1], Tool.from_function(refuse, name="price_of"), *Counter().tools[2:])
    for changed, why in (
        (shop(BOUGHT, end_state=["code-13"]), "or not the end state"),
        (replace(suite, open=lambda _: StatelessEnvironment(Counter().tools[:1])), "no tool 'price_of'"),
        (replace(suite, open=lambda _: StatelessEnvironment(failing)), "LookupError: closed today"),
    ):
        assert why in learned(folder, changed, check=True).not_learned["t0"]
    drawn = PlannedCall("e", "draw_id", {}, "Draw an id.")
    plan = Plan((drawn, PlannedCall("f", "buy", {"code": Ref("e", ("id",))}, "Buy that."), *PRICE.calls), Ref("b"))
    anew = shop(plan, end_state=["drawn"])
    (task,) = learned(ran(tmp_path, anew), anew, check=True).tasks
    assert task.plan is not None
    assert {"code": Ref("c1", ("id",))} in [call.arguments for call in task.plan.calls]


def test_every_built_in_suite_can_be_learned_from_its_own_run(tmp_path):
    suite = make_suite(parse_spec("arithmetic(size=18)"))
    found = learned(ran(tmp_path, suite), without_plans(suite), check=True)
    assert not found.not_learned
    assert sum(lesson.references for lesson in found.lessons) >= 50
