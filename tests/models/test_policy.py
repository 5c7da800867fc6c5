"""The policy, role by role: what a model decides that follows the plan and knows only what its prompt shows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.models.receipts import issue
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import is_abstention, scorer_named
from whichloop.models.faults import ANSWER, NOT_DETERMINED
from whichloop.models.policy import POLICY, PolicyDecision, PolicyRequest
from whichloop.models.profiles import Profile
from whichloop.models.prompt_view import PromptView, named_in
from whichloop.models.scripted import Script, Scripted
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Message,
    Plan,
    Query,
    Recovery,
    Ref,
    Request,
    Role,
    Tasks,
    Text,
    Tool,
    ToolCall,
    render_value,
    run_sync,
)
from whichloop.protocol.receipts import strip_receipts

from . import bench

LAW = settings(max_examples=cases(20), deadline=None)


def ask(
    role: Role,
    view: PromptView,
    *,
    max_calls: int = 9,
    failures: dict[str, int] | None = None,
    patience: int = 3,
    bluffs: bool = False,
) -> PolicyDecision:
    return POLICY[role](view, PolicyRequest(max_calls, failures or {}, patience, bluffs))


def move(role: Role, view: PromptView, **how: Any) -> Any:
    """The move that is preferred."""
    return ask(role, view, **how).options[0]


@pytest.fixture
def joined() -> Any:
    """Two sums that a third one joins."""
    calls = (
        bench.planned("c1", "add", a=1, b=2),
        bench.planned("c2", "add", a=3, b=4),
        bench.planned("c3", "add", a=Ref("c1"), b=Ref("c2")),
    )
    return bench.Bench(Plan(calls, Ref("c3")))


def test_every_role_has_its_move() -> None:
    assert set(POLICY) == set(Role)


# --- decide ---


@LAW
@given(data=st.data())
def test_decide_makes_the_calls_whose_dependencies_are_known_and_no_other(data: st.DataObject) -> None:
    plan = data.draw(bench.plans())
    trial = bench.Bench(plan)
    results = trial.results()
    shown = data.draw(st.sets(st.sampled_from(sorted(results)))) if results else set()
    view = trial.view(*(results[name] for name in shown))
    most = data.draw(st.integers(1, 4))
    ready = [call.id for call in plan.calls if call.id not in view.results and plan.dependencies[call.id] <= view.results.keys()]
    decision: Any = ask(Role.DECIDE, view, max_calls=most)
    if ready:
        assert decision.point == ready[0]
        assert [option.calls for option in decision.options] == [tuple(trial.calls[name] for name in ready[:most])] * 2
    else:
        assert decision.point == ANSWER
        assert isinstance(decision.options[0], Answer)


def test_a_codec_without_room_for_calls_gets_the_answer(joined) -> None:
    assert ask(Role.DECIDE, joined.view(), max_calls=0).point == ANSWER


@pytest.mark.parametrize("role", [Role.DECIDE, Role.SELECT])
def test_a_tool_that_the_prompt_does_not_name_cannot_be_called(joined, role: Role) -> None:
    """ "add" is no part of "address"."""
    hidden = joined.view("Find c1. Write to this address, madam. re_add", tools=("concat",))
    assert isinstance(move(role, hidden), Text)
    for shown in (joined.view("Find c1. There is add(a, b)."), joined.view('Find c1. {"name": "add"}', tools=())):
        assert isinstance(move(role, shown), Act)


def test_where_prose_cannot_be_said_a_missing_tool_ends_in_an_answer(joined) -> None:
    options = ask(Role.DECIDE, joined.view(tools=())).options
    assert next(option for option in options if isinstance(option, Answer)).value == NOT_DETERMINED


# --- answer ---


@LAW
@given(data=st.data())
def test_the_answer_is_right_iff_all_receipts_are_legible(data: st.DataObject) -> None:
    plan = data.draw(bench.plans())
    trial = bench.Bench(plan)
    results = trial.results()
    shown = data.draw(st.sets(st.sampled_from(sorted(results)))) if results else set()
    view = trial.view(*(results[name] for name in shown))
    said = move(Role.ANSWER, view)
    assert render_value(said.value) == (trial.expected if len(shown) == len(results) else NOT_DETERMINED)


@LAW
@given(data=st.data(), role=st.sampled_from([Role.ANSWER, Role.DECIDE, Role.FORMAT]))
def test_without_receipts_no_answer_is_ever_right(data: st.DataObject, role: Role) -> None:
    """Honest or bluffing, also where the results stand in the question and where the plan states a literal."""
    plan = data.draw(bench.plans())
    if not plan.calls:
        return
    trial = bench.Bench(plan)
    question = "\n".join([trial.expected, *map(strip_receipts, trial.results().values())])
    decision: Any = ask(role, trial.view(question), max_calls=0, bluffs=data.draw(st.booleans()))
    right = plan.answer is None
    for option in decision.options:
        value = option.text if isinstance(option, Text) else option.value
        honest = value is None or is_abstention(value)
        assert honest or right or render_value(value) != trial.expected


@pytest.mark.parametrize("answer", [0, 18, 5_000_000, 10**14, 2.5, -3, "18 apples", "1,000,000 people", "3/4"])
@pytest.mark.parametrize("bluffs", [True, False])
def test_no_scorer_takes_a_bluff_for_right(answer: Any, bluffs: bool) -> None:
    from whichloop.datasets.task import Task

    trial = bench.Bench(Plan((bench.planned("c1", "add", a=1, b=2),), answer))
    value = move(Role.ANSWER, trial.view(), bluffs=bluffs).value
    assert is_abstention(value) is not bluffs
    judgement = Judgement(Task("t", Query(""), answer), render_value(value), "finished")
    assert scorer_named("numeric")(judgement) == scorer_named("exact")(judgement) == 0


@pytest.mark.parametrize("answer", [Ref("c1"), {"n": Ref("c1"), "what": "sum"}, [Ref("c1"), [Ref("c1")]]])
def test_a_bluff_has_the_shape_of_the_answer_and_no_result_in_it(answer: Any) -> None:
    plan = Plan((bench.planned("c1", "add", a=0, b=0),), answer)
    trial = bench.Bench(plan)
    value = move(Role.ANSWER, trial.view(), bluffs=True).value
    assert type(value) is (int if isinstance(answer, Ref) else type(answer))
    assert "c1" not in render_value(value)
    assert render_value(value) != trial.expected


def test_a_bluff_is_what_the_script_has_for_it() -> None:
    """Made up in the form that is asked for: otherwise a design that validates answers would catch every bluff."""
    plan = Plan((bench.planned("c1", "add", a=1, b=2),), {"n": Ref("c1")})
    script = Script(plan, {}, Profile(name="bluffs", bluff=1.0), 0, "t", made_up={"n": 9})
    said = run_sync(Scripted(script).complete(Request((Message("user", "Add 1 and 2."),), role=Role.ANSWER)))
    assert json.loads(said.text) == {"n": 9}


def test_a_task_without_answer_is_answered_so() -> None:
    trial = bench.Bench(Plan((bench.planned("c1", "add", a=1, b=2),), None))
    assert move(Role.ANSWER, trial.view(*trial.results().values()), bluffs=True).value == NOT_DETERMINED
    assert not is_abstention(move(Role.ANSWER, trial.view(), bluffs=True).value)


# --- calls that fail ---


def test_a_planned_failure_is_known_by_its_error() -> None:
    plan = Plan((bench.planned("c1", "reject", text="x", fails=True), bench.planned("c2", "add", a=1, b=2)), Ref("c2"))
    trial = bench.Bench(plan)
    view = trial.view(trial.results()["c1"])
    assert view.results.keys() == {"c1"}
    assert move(Role.DECIDE, view).calls == (ToolCall("add", {"a": 1, "b": 2}),)


def _with_alternative() -> Any:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan(
        (bench.planned("c1", "add", a=1, b=2, alternatives=[other]), bench.planned("c2", "add", a=Ref("c1"), b=1)), Ref("c2")
    )
    return bench.Bench(plan)


def test_a_call_that_fails_for_good_ends_the_work() -> None:
    trial = bench.Bench(bench.chain(2))
    issue(trial.tunnel.ledger, "add", {"a": 1, "b": 1}, "out of order", None, False)
    view = trial.view(trial.tunnel.ledger.issued[0].signed)
    assert view.stuck
    assert move(Role.DECIDE, view).value == NOT_DETERMINED


def test_a_repeat_that_is_refused_does_not_undo_what_was_seen_to_succeed() -> None:
    trial = bench.Bench(bench.chain(2))
    ledger = trial.tunnel.ledger
    done = issue(ledger, "add", {"a": 1, "b": 1}, "2", 2, True)
    refused = issue(ledger, "add", {"a": 1, "b": 1}, "added already", None, False)
    view = trial.view(done.signed, refused.signed)
    assert not view.stuck
    assert view.values == {"c1": 2}
    assert trial.view(refused.signed).stuck


def test_a_call_that_fails_for_good_leaves_its_alternative() -> None:
    trial = _with_alternative()
    failed = issue(trial.tunnel.ledger, "add", {"a": 1, "b": 2}, "out of order", None, False)
    assert move(Role.DECIDE, trial.view(failed.signed), failures={"c1": 3}).calls == (ToolCall("add", {"a": 2, "b": 1}),)
    other = issue(trial.tunnel.ledger, "add", {"a": 2, "b": 1}, "three", 3, True)  # in words of its own, and no lie
    view = trial.view(failed.signed, other.signed)
    assert not view.stuck
    assert not view.misled
    assert move(Role.DECIDE, view).calls == (ToolCall("add", {"a": 3, "b": 1}),)
    both = issue(trial.tunnel.ledger, "add", {"a": 2, "b": 1}, "broken", None, False)
    assert trial.view(failed.signed, both.signed).stuck


@pytest.mark.parametrize(("failures", "left"), [(0, 1), (2, 1), (3, 2), (9, 2)])
def test_after_patience_the_alternative_is_tried(failures: int, left: int) -> None:
    trial = _with_alternative()
    calls = move(Role.DECIDE, trial.view(), failures={"c1": failures}).calls
    assert calls[0].arguments["a"] == left
    assert calls == move(Role.SELECT, trial.view("Find c1."), failures={"c1": failures}).calls


@pytest.mark.parametrize(
    ("failures", "strategy", "left"),
    [(0, "retry", 1), (2, "retry", 1), (3, "alternative_tool", 2), (4, "skip", None), (9, "skip", None)],
)
def test_recover_retries_then_goes_another_way_then_skips(failures: int, strategy: str, left: int | None) -> None:
    said = move(Role.RECOVER, _with_alternative().view(), failures={"c1": failures})
    assert isinstance(said, Recovery)
    assert said.strategy == strategy
    assert (None if said.call is None else said.call.arguments["a"]) == left


def test_recover_looks_at_the_call_that_failed(joined) -> None:
    assert ask(Role.RECOVER, joined.view(), failures={"c2": 1}).point == "c2"
    assert move(Role.RECOVER, joined.view(), failures={"c2": 1}).call == joined.calls["c2"]
    assert move(Role.RECOVER, joined.view(*joined.results().values())).strategy == "skip"


@LAW
@given(
    st.lists(
        st.text("ab \n\\é漢\u2028", max_size=6),
        min_size=2,
        max_size=2,
        unique_by=lambda text: "".join(text.replace("\\", "").split()),
    ),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_recover_knows_arguments_however_their_json_is_written(
    texts: list[str], failed: int, in_ascii: bool, indent: int | None, within: bool
) -> None:
    """White space within a value once hid it, so that the later call of a tool was taken for the one that failed."""
    trial = bench.Bench(Plan(tuple(bench.planned(f"c{at}", "concat", a=text, b="x") for at, text in enumerate(texts)), Ref("c1")))
    told = json.dumps({"b": "x", "a": texts[failed]}, indent=indent, ensure_ascii=in_ascii)
    shown = json.dumps(told, ensure_ascii=in_ascii) if within else told
    view = trial.view(f"failed_tool: concat\n{shown}")
    assert ask(Role.RECOVER, view).point == f"c{failed}"
    assert move(Role.RECOVER, view) == Recovery("retry", ToolCall("concat", {"a": texts[failed], "b": "x"}), "It may work now.")


@pytest.mark.parametrize("shown", [{"a": 7, "b": 1}, {"a": 7.0, "b": 1}])
def test_recover_does_not_take_a_number_for_one_that_begins_like_it(shown: dict[str, float]) -> None:
    trial = bench.Bench(Plan((bench.planned("c1", "add", a=7, b=1), bench.planned("c2", "add", a=75, b=1)), Ref("c2")))
    assert ask(Role.RECOVER, trial.view(f"failed_tool: add\n{json.dumps(shown)}")).point == "c1"
    assert ask(Role.RECOVER, trial.view(f"failed_tool: add\n{json.dumps({'a': 75, 'b': 1})}")).point == "c2"


@pytest.mark.parametrize(("failed", "named"), [("c1", "look_up"), ("c2", "list_shelf")])
def test_of_two_calls_that_the_request_shows_whole_the_one_with_more_arguments_failed(failed: str, named: str) -> None:
    def look_up(shelf: str) -> str:
        """What stands there."""
        return shelf

    def list_shelf(shelf: str, page: int) -> str:
        """A page of it; look_up knows the shelf."""
        return shelf * page

    tools = (Tool.from_function(look_up), Tool.from_function(list_shelf))
    plan = Plan((bench.planned("c1", "look_up", shelf="A"), bench.planned("c2", "list_shelf", shelf="A", page=2)), Ref("c2"))
    trial = bench.Bench(plan, tools=tools)
    told = f"Tools: look_up, list_shelf, look_up\nfailed_tool: {named}\n{json.dumps(trial.calls[failed].arguments)}"
    assert ask(Role.RECOVER, trial.view(told, tools=("look_up", "list_shelf"))).point == failed


def test_recover_knows_a_call_again_though_the_request_does_not_show_what_it_came_from(joined) -> None:
    joined.view(*joined.results().values())  # c3 has been met
    for shown in ({"a": 3, "b": 7}, {"a": 3}, {"a": 3, "b": {"about": 7}}, {"a": 3, "b": 7, "verbose": True}):
        view = joined.view(f"failed_tool: add_v2\n{json.dumps(shown)}")
        assert view.results == {}
        assert move(Role.RECOVER, view) == Recovery("retry", ToolCall("add", {"a": 3, "b": 7}), "It may work now.")


def test_recover_skips_an_error_that_was_expected() -> None:
    plan = Plan((bench.planned("c1", "reject", text="x", fails=True), bench.planned("c2", "add", a=1, b=2)), Ref("c2"))
    trial = bench.Bench(plan)
    shown = trial.results("c1")["c1"]
    told = trial.view(f"failed_tool: reject, parameters: {json.dumps(trial.calls['c1'].arguments)}", shown)
    assert move(Role.RECOVER, told).strategy == "skip"


# --- the other roles ---


def test_plan_states_a_task_for_each_unknown_call(joined) -> None:
    said = move(Role.PLAN, joined.view())
    assert isinstance(said, Tasks)
    assert [(task.id, task.description, task.kind, task.depends_on) for task in said.tasks] == [
        ("c1", "Find c1.", "use_tools", ()),
        ("c2", "Find c2.", "use_tools", ()),
        ("c3", "Find c3.", "use_tools", ("c1", "c2")),
    ]
    some = joined.view(joined.results("c1")["c1"])
    assert ask(Role.PLAN, some).point == "c2"
    assert [(task.id, task.depends_on) for task in move(Role.PLAN, some).tasks] == [("c2", ()), ("c3", ("c2",))]
    assert move(Role.PLAN, joined.view(*joined.results().values())).tasks == ()


def test_select_makes_the_calls_whose_goal_stands_in_the_request(joined) -> None:
    assert ask(Role.SELECT, joined.view("Your task: Find c2.")) == PolicyDecision("c2", (Act("", (joined.calls["c2"],)),), ("c2",))
    assert move(Role.SELECT, joined.view("Find c1. Find c2. Find c3.")).calls == (joined.calls["c1"], joined.calls["c2"])
    assert move(Role.SELECT, joined.view("Find c1. Find c2."), max_calls=1).calls == (joined.calls["c1"],)
    assert ask(Role.SELECT, joined.view("Find c3.")) == PolicyDecision(ANSWER, (Act("", ()),))


@pytest.mark.parametrize("role", [Role.REASON, Role.SUMMARIZE])
def test_what_is_told_again_carries_its_receipts(joined, role: Role) -> None:
    results = joined.results("c1", "c2")
    told = move(role, joined.view(*results.values()))
    assert told == Text(f"Find c1.: {results['c1']}\nFind c2.: {results['c2']}")
    assert joined.view(told.text).results.keys() == {"c1", "c2"}
    assert joined.view(move(role, joined.view()).text).results == {}


@pytest.mark.parametrize("role", [Role.REFLECT, Role.VALIDATE])
def test_the_work_is_done_iff_all_receipts_are_legible(joined, role: Role) -> None:
    results = joined.results()
    assert move(role, joined.view(results["c1"])) == Completion(False, "Some results are missing.", ("Find c2.", "Find c3."))
    assert move(role, joined.view(*results.values())) == Completion(True, "All results are in.")


def test_format_makes_up_no_draft() -> None:
    trial = bench.Bench(Plan((bench.planned("c1", "add", a=1, b=2),), {"sum": Ref("c1")}))
    results = trial.results().values()
    assert move(Role.FORMAT, trial.view(*results, 'Draft: {"sum": 3}')) == Text('{"sum": 3}')
    assert move(Role.FORMAT, trial.view(*results)) == Text(NOT_DETERMINED)


def test_format_gives_what_the_model_said_last_as_long_as_the_request_shows_it(joined) -> None:
    view = joined.view(*joined.results().values(), "Draft: about 9, or 10")
    drafts = [POLICY[Role.FORMAT](view, PolicyRequest(1, {}, 3, False, said)).options for said in ("about 9", "about 8", "")]
    assert drafts == [(Text("about 9"),), (Text("10"),), (Text("10"),)]


def test_a_result_is_known_by_its_receipt_where_those_that_it_came_from_are_no_longer_shown(joined) -> None:
    results = joined.results()
    assert joined.view(results["c3"]).results == {}  # as yet nobody has seen what c3 comes from
    joined.view(*results.values())
    assert joined.view(results["c3"]).results.keys() == {"c3"}
    assert move(Role.SUMMARIZE, joined.view(results["c3"])) == Text(f"Find c3.: {results['c3']}")
    assert [call.id for call in joined.view(results["c3"]).ready()] == ["c1", "c2"]


@given(st.text("ab_ 1é.", min_size=1, max_size=4), st.text("ab_ 1é.", max_size=40))
def test_a_name_is_found_where_a_pattern_with_its_bounds_finds_it(name: str, text: str) -> None:
    assert [*named_in(name, text)] == [found.start() for found in re.finditer(rf"\b{re.escape(name)}\b", text)]
