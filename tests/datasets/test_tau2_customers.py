"""tau2's retail and airline: a customer who answers by a script, and tools over tables that all trials share."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.tau2_shops import AIRLINE, EXCHANGE, SHOP, action, airline_suite, loaded, make, row, shop_suite
from whichloop.datasets.task import Suite, Task, WorldEnvironment
from whichloop.datasets.tau2.customer import first_person
from whichloop.datasets.tau2.domain import NotFound, TrialTables
from whichloop.datasets.with_user import FurtherRequest, ProposedCall, ScriptedTalk, ScriptedUser, user_tools, with_user
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return shop_suite(tmp_path_factory.mktemp("retail"))


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return airline_suite(tmp_path_factory.mktemp("airline"))


VERBS = {"cancel", "modify", "return", "exchange", "book", "update", "send"}

# The customer


def test_a_scenario_becomes_a_user_who_answers(shop: Suite) -> None:
    task, tool = shop.tasks[0], "exchange_delivered_order_items"
    assert task.query.text.startswith("My lamp is dull.\n\n")
    assert task.query.context == "Be kind."
    changes = [(tool, EXCHANGE), (tool, EXCHANGE | {"new_item_ids": ["10"]}), ("return_delivered_order_items", EXCHANGE)]
    said = make(
        shop.open(task),
        *(("ask_user", {"about": about, "question": "?"}) for about in ("identity", "wishes")),
        *(("confirm_with_user", {"action": name, "arguments": arguments}) for name, arguments in changes),
    )
    assert said == ["I am Ann.", "My lamp is dull.\nA brighter one.", True, False, False]


def test_a_plan_asks_first_looks_up_once_and_has_each_change_agreed_to(shop: Suite) -> None:
    plan = shop.tasks[0].plan
    assert plan is not None
    assert [call.id for call in plan.calls] == ["ask_identity", "ask_wishes", "c1", "yes2", "c2"]
    assert plan.dependencies["c1"] == {"ask_identity", "ask_wishes"}
    assert plan.dependencies["c2"] == {"yes2"}


def solved(suite: Suite, task: Task, answer: str) -> float:
    assert task.plan is not None
    trial = suite.open(task)
    make(trial, *((call.tool, call.arguments) for call in task.plan.calls))
    return scores_of(Judgement(task, answer, "finished", trial.state()))["accuracy"]


def test_the_plans_solve_their_tasks(shop: Suite, airline: Suite) -> None:
    assert [solved(shop, task, "Done.") for task in shop.tasks] == [1, 1]
    assert solved(airline, airline.tasks[0], "It costs $180.") == 1
    assert solved(airline, airline.tasks[0], "It costs $179.") == 0
    idle = shop.open(shop.tasks[0])
    assert scores_of(Judgement(shop.tasks[0], "Done.", "finished", idle.state()))["accuracy"] == 0


WORTH = st.integers(0, 3)
PAIRS = st.lists(st.tuples(WORTH, WORTH), max_size=5)


def swap(pairs: list[tuple[int, int]], *, order: int = 1) -> ProposedCall:
    lists = {"old": [old for old, _ in pairs], "new": [new for _, new in pairs]}
    return ProposedCall("swap", {"order": order, **lists}, ("old", "new"))


@given(PAIRS, PAIRS, st.data())
def test_lists_side_by_side_are_pairs_in_any_order(pairs: Any, other: Any, data: st.DataObject) -> None:
    assert swap(pairs).allows(swap(data.draw(st.permutations(pairs))))
    assert swap(pairs).allows(swap(other)) == (sorted(pairs) == sorted(other))
    assert swap(pairs).allows(swap(other)) == swap(other).allows(swap(pairs))
    assert not swap(pairs).allows(swap(pairs, order=2))


def test_a_user_of_ones_own_has_topics_of_ones_own() -> None:
    ask, _ = user_tools({"budget": "how much they want to spend"}).bound_to(ScriptedTalk(ScriptedUser({"budget": "At most 10."})))
    assert ask.parameters["properties"]["about"]["const"] == "budget"
    assert "budget, how much they want to spend" in ask.description
    assert ask.function(about="budget", question="How much?") == "At most 10."
    with pytest.raises(ValueError, match="topics is empty: a user who can be asked needs at least one topic"):
        user_tools({})


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (ScriptedUser({}, further=[FurtherRequest("And an oar.")]), "through tell_user: make the tools with asks=True"),
        (ScriptedUser({"budget": "At most 10."}), "about budget, which ask_user does not have: its topics are identity, wishes"),
    ],
)
def test_a_script_that_an_agent_cannot_hear_whole_is_refused(script: ScriptedUser, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        with_user(WorldEnvironment((), None, lambda world: None), script)


def test_only_tools_that_make_changes_may_write(shop: Suite, airline: Suite) -> None:
    for suite in (shop, airline):
        trial = suite.open(suite.tasks[0])
        writes = {tool.name for tool in trial.tools if not tool.read_only}
        assert writes == {name for name in (tool.name for tool in trial.tools) if name.split("_")[0] in VERBS}
        assert suite.tasks[0].plan is not None
        other = suite.open(suite.tasks[0])
        for call in suite.tasks[0].plan.calls:
            before = trial.state()
            (seen,) = make(trial, (call.tool, call.arguments))
            assert (trial.state() != before) == (call.tool in writes)
            if isinstance(seen, dict):  # no door into the tables
                seen.clear()
        assert trial.state() == suite.tasks[0].end_state
        assert other.state() == {"changed": {}}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("You are Ann in zip code 1. You do not remember your email.", "I am Ann in zip code 1. I do not remember my email."),
        ("you're sick, and want the agent to help you yourself.", "I'm sick, and want the agent to help me myself."),
        ("If you can't, it is yours.", "If I can't, it is mine."),
        (".", ""),
        ("", ""),
    ],
)
def test_what_an_actor_is_told_becomes_the_customer_s_words(told: str, said: str) -> None:
    assert first_person(told) == said


# Tables that trials share


@given(st.lists(st.tuples(st.sampled_from(["get", "edit", "add"]), st.sampled_from("abc"), st.integers(0, 2)), max_size=8))
def test_changes_are_the_difference_to_the_shared_tables(steps: list[tuple[str, str, int]]) -> None:
    shared = {"things": {"a": {"n": 0}, "b": {"n": 1}}, "others": {}}
    before, records, model = copy.deepcopy(shared), TrialTables(shared), copy.deepcopy(shared["things"])
    for step, key, value in steps:
        if step == "add":
            records.add("things", key, {"n": value})
            model[key] = {"n": value}
        elif key not in model:
            with pytest.raises(NotFound):
                records.get("things", key)
        elif step == "edit":
            records.edit("things", key)["n"] = model[key]["n"] = value
        else:
            assert records.get("things", key) == model[key]
    changed = {key: record for key, record in sorted(model.items()) if record != before["things"].get(key)}
    assert records.changes() == ({"things": changed} if changed else {})
    assert sorted(record["n"] for record in records.each("things")) == sorted(record["n"] for record in model.values())
    assert shared == before


# Bad input


@pytest.mark.parametrize(
    ("given_row", "reason"),
    [
        (row("t", initial_state={"message_history": [{}]}), "it continues a conversation"),
        (row("t", initial_state={"initialization_data": {"agent_data": {}}}), "it starts from a state of its own"),
        (row("t", action("calculate", expression="1") | {"requestor": "user"}), "its user has tools"),
        (row("t", basis=("NL_ASSERTION",)), "nothing without a judge"),
        (row("t", action("calculate", expression="1"), basis=("ACTION",)), "its criteria ask for ACTION"),
        (row("t", action("get_order_details", number="#2")), "get_order_details"),
    ],
)
def test_what_cannot_be_run_is_quarantined_with_the_reason(tmp_path: Path, given_row: Any, reason: str) -> None:
    (task,) = loaded(tmp_path, SHOP, given_row).tasks
    assert reason in task.quarantined


@pytest.mark.parametrize(
    ("tables", "given_row", "message"),
    [
        (SHOP, row("t", action("fly")), r"tasks\.json: task 't' names 'fly', which the domain 'retail' lacks; it has calculate"),
        (SHOP, row("t") | {"user_scenario": {"instructions": "Ann"}}, r"json, task 't': field 'user_scenario\.instructions'"),
        (SHOP | {"users": {"ann": {}}}, row("t"), r"db\.json: field 'users\.ann\.user_id'"),
        (AIRLINE | {"flights": []}, row("t"), r"db\.json: field 'flights'"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path, tables: Any, given_row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loaded(tmp_path, tables, given_row)
