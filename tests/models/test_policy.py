"""The policy, role by role: what a model decides that follows the plan and knows only what its prompt shows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.scorers import is_abstention
from whichloop.models.faults import ANSWER, NOT_DETERMINED
from whichloop.models.policy import POLICY, PolicyDecision, PolicyRequest
from whichloop.models.profiles import Profile
from whichloop.models.receipts import PromptView, call_digest, named_in
from whichloop.models.scripted import Script, Scripted
from whichloop.protocol import Message, Plan, Ref, Reply, Request, ToolCall, render_value, run_sync
from whichloop.protocol.moves import (
    Act,
    Answer,
    Completion,
    Inexpressible,
    Move,
    Recovery,
    Role,
    Tasks,
    Text,
    Understanding,
    WireError,
)
from whichloop.protocol.receipts import strip_receipts

from . import bench

LAW = settings(max_examples=cases(20), deadline=None)


def ask(role: Role, view: PromptView, *, max_calls: int = 9, failures: Any = None, bluffs: bool = False) -> PolicyDecision:
    return POLICY[role](view, PolicyRequest(max_calls, failures or {}, 3, bluffs))


def move(role: Role, view: PromptView, **how: Any) -> Any:
    """The move that is preferred."""
    return ask(role, view, **how).options[0]


def sums(answer: Any, *, fails: bool = False) -> bench.Bench:
    """1 + 2, perhaps after a call that is to fail."""
    first = [bench.planned("c0", "reject", text="x", fails=True)] if fails else []
    return bench.Bench(Plan((*first, bench.planned("c1", "add", a=1, b=2)), answer))


@pytest.fixture
def joined() -> Any:
    """Two sums that a third one joins."""
    calls = (
        bench.planned("c1", "add", a=1, b=2),
        bench.planned("c2", "add", a=3, b=4),
        bench.planned("c3", "add", a=Ref("c1"), b=Ref("c2")),
    )
    return bench.Bench(Plan(calls, Ref("c3")))


class Picky:
    """A codec that can say moves of some kinds only, and shows them as they are."""

    name = "picky"
    max_calls = 2

    def __init__(self, role: Role, kinds: set[type]) -> None:
        self.role = role
        self.kinds = kinds
        self.said: dict[str, Move] = {}

    def render(self, move: Move) -> Reply:
        if type(move) not in self.kinds:
            raise Inexpressible(type(move).__name__)
        self.said[repr(move)] = move
        return Reply(repr(move))

    def parse(self, reply: Reply) -> Move:
        if reply.text not in self.said:
            raise WireError("prose")
        return self.said[reply.text]


KINDS = st.sets(st.sampled_from([Act, Answer, Understanding, Tasks, Completion, Recovery, Text]))


@LAW
@given(data=st.data(), plan=bench.plans(), role=st.sampled_from(list(Role)), kinds=KINDS, shown=st.booleans())
def test_a_move_that_a_codec_cannot_say_is_never_made(data, plan, role, kinds, shown):
    """Under any fault too: the reply is a move of a kind that can be said, or prose; a model always says something."""
    trial = bench.Bench(plan, data.draw(st.sampled_from(["clean", "forgetful"])), seed=data.draw(st.integers()))
    codec = Picky(role, kinds)
    texts = trial.results().values() if shown else ()
    reply = run_sync(trial.model.complete(trial.request(*texts, role=role, codec=codec)))
    if codec.said:
        assert type(codec.parse(reply)) in kinds
    else:
        assert reply.text or trial.expected == ""
        assert reply.calls == ()


@LAW
@given(plan=bench.plans(), data=st.data(), most=st.integers(1, 4))
def test_calls_are_made_whose_dependencies_are_known_and_the_answer_is_right_iff_all_receipts_are_legible(plan, data, most):
    trial = bench.Bench(plan)
    results = trial.results()
    shown = data.draw(st.sets(st.sampled_from(sorted(results)))) if results else set()
    view = trial.view(*(results[name] for name in shown))
    ready = [call.id for call in plan.calls if call.id not in view.results and plan.dependencies[call.id] <= view.results.keys()]
    decision: Any = ask(Role.DECIDE, view, max_calls=most)
    if ready:
        assert decision.point == ready[0]
        assert [option.calls for option in decision.options] == [tuple(trial.calls[name] for name in ready[:most])] * 2
    else:
        assert decision.point == ANSWER
        assert isinstance(decision.options[0], Answer)
    said = move(Role.ANSWER, view)
    assert render_value(said.value) == (trial.expected if len(shown) == len(results) else NOT_DETERMINED)
    assert ask(Role.DECIDE, view, max_calls=0).point == ANSWER


@pytest.mark.parametrize("role", [Role.DECIDE, Role.SELECT])
def test_a_tool_that_the_prompt_does_not_name_cannot_be_called(joined, role: Role) -> None:
    hidden = joined.view("Find c1. Write to this address, madam. re_add", tools=("concat",))
    assert isinstance(move(role, hidden), Text)
    for shown in (joined.view("Find c1. There is add(a, b)."), joined.view('Find c1. {"name": "add"}', tools=())):
        assert isinstance(move(role, shown), Act)
    options = ask(Role.DECIDE, joined.view(tools=())).options
    assert next(option for option in options if isinstance(option, Answer)).value == NOT_DETERMINED


@LAW
@given(plan=bench.plans(), role=st.sampled_from([Role.ANSWER, Role.DECIDE, Role.FORMAT]), bluffs=st.booleans())
def test_without_receipts_no_answer_is_ever_right(plan: Plan, role: Role, bluffs: bool) -> None:
    if not plan.calls:
        return
    trial = bench.Bench(plan)
    question = "\n".join([trial.expected, *map(strip_receipts, trial.results().values())])
    decision: Any = ask(role, trial.view(question), max_calls=0, bluffs=bluffs)
    for option in decision.options:
        value = option.text if isinstance(option, Text) else option.value
        assert value is None or is_abstention(value) or plan.answer is None or render_value(value) != trial.expected


def test_a_bluff_is_what_the_script_has_for_it_and_a_task_without_answer_is_answered_so() -> None:
    """Made up in the form that is asked for: otherwise a design that validates answers would catch every bluff."""
    script = Script(sums({"n": Ref("c1")}).plan, {}, Profile(name="bluffs", bluff=1.0), 0, "t", made_up={"n": 9})
    said = run_sync(Scripted(script).complete(Request((Message("user", "Add 1 and 2."),), role=Role.ANSWER)))
    assert json.loads(said.text) == {"n": 9}
    trial = sums(None)
    assert move(Role.ANSWER, trial.view(*trial.results().values()), bluffs=True).value == NOT_DETERMINED
    assert not is_abstention(move(Role.ANSWER, trial.view(), bluffs=True).value)


def _with_alternative() -> Any:
    other = bench.planned("c1", "add", a=2, b=1)
    first = bench.planned("c1", "add", a=1, b=2, alternatives=[other])
    return bench.Bench(Plan((first, bench.planned("c2", "add", a=Ref("c1"), b=1)), Ref("c2")))


def issued(trial: bench.Bench, a: int, b: int, text: str, value: Any = None) -> str:
    """The receipt of a sum; of one that failed where there is no value."""
    return trial.tunnel.ledger.sign(call_digest("add", {"a": a, "b": b}), text, value, value is not None).around(text)


def test_a_call_that_fails_for_good_leaves_its_alternative() -> None:
    trial = _with_alternative()
    failed = issued(trial, 1, 2, "out of order")
    assert move(Role.DECIDE, trial.view(failed), failures={"c1": 3}).calls == (ToolCall("add", {"a": 2, "b": 1}),)
    view = trial.view(failed, issued(trial, 2, 1, "three", 3))  # in words of its own, and no lie
    assert not view.stuck
    assert not view.misled
    assert move(Role.DECIDE, view).calls == (ToolCall("add", {"a": 3, "b": 1}),)
    assert trial.view(failed, issued(trial, 2, 1, "broken")).stuck


@pytest.mark.parametrize(
    ("failures", "strategy", "decides", "recovers"),
    [(0, "retry", 1, 1), (2, "retry", 1, 1), (3, "alternative_tool", 2, 2), (4, "skip", 2, None), (9, "skip", 2, None)],
)
def test_after_patience_the_alternative_is_tried_and_then_skipped(failures, strategy, decides, recovers):
    trial = _with_alternative()
    failed = {"c1": failures}
    calls = move(Role.DECIDE, trial.view(), failures=failed).calls
    assert calls[0].arguments["a"] == decides
    assert calls == move(Role.SELECT, trial.view("Find c1."), failures=failed).calls
    said = move(Role.RECOVER, trial.view(), failures=failed)
    assert isinstance(said, Recovery)
    assert (said.strategy, None if said.call is None else said.call.arguments["a"]) == (strategy, recovers)


AGAIN = "It may work now."


@LAW
@given(
    st.lists(st.text("ab \n\\é漢\u2028", max_size=6), min_size=2, max_size=2, unique_by=lambda text: re.sub(r"[\\\s]", "", text)),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_recover_knows_arguments_however_their_json_is_written(texts, failed, in_ascii, indent, within):
    """White space within a value once hid it, so that the later call of a tool was taken for the one that failed."""
    trial = bench.Bench(Plan(tuple(bench.planned(f"c{at}", "concat", a=text, b="x") for at, text in enumerate(texts)), Ref("c1")))
    told = json.dumps({"b": "x", "a": texts[failed]}, indent=indent, ensure_ascii=in_ascii)
    shown = json.dumps(told, ensure_ascii=in_ascii) if within else told
    view = trial.view(f"failed_tool: concat\n{shown}")
    assert ask(Role.RECOVER, view).point == f"c{failed}"
    assert move(Role.RECOVER, view) == Recovery("retry", ToolCall("concat", {"a": texts[failed], "b": "x"}), AGAIN)


def test_recover_knows_a_call_again_though_the_request_does_not_show_what_it_came_from(joined) -> None:
    assert ask(Role.RECOVER, joined.view(), failures={"c2": 1}).point == "c2"
    assert move(Role.RECOVER, joined.view(), failures={"c2": 1}).call == joined.calls["c2"]
    assert move(Role.RECOVER, joined.view(*joined.results().values())).strategy == "skip"  # and c3 has been met
    for shown in ({"a": 3, "b": 7}, {"a": 3}, {"a": 3, "b": {"about": 7}}, {"a": 3, "b": 7, "verbose": True}):
        view = joined.view(f"failed_tool: add_v2\n{json.dumps(shown)}")
        assert view.results == {}
        assert move(Role.RECOVER, view) == Recovery("retry", ToolCall("add", {"a": 3, "b": 7}), AGAIN)
    expected = sums(Ref("c1"), fails=True)  # an error that was expected is skipped
    told = f"failed_tool: reject, parameters: {json.dumps(expected.calls['c0'].arguments)}"
    assert move(Role.RECOVER, expected.view(told, expected.results("c0")["c0"])).strategy == "skip"


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


def test_format_gives_the_draft_that_it_is_shown_and_makes_up_none(joined) -> None:
    view = joined.view(*joined.results().values(), "Draft: about 9, or 10")
    drafts = [POLICY[Role.FORMAT](view, PolicyRequest(1, {}, 3, False, said)).options for said in ("about 9", "about 8", "")]
    assert drafts == [(Text("about 9"),), (Text("10"),), (Text("10"),)]


@given(st.text("ab_ 1é.", min_size=1, max_size=4), st.text("ab_ 1é.", max_size=40))
def test_a_name_is_found_where_a_pattern_with_its_bounds_finds_it(name: str, text: str) -> None:
    assert [*named_in(name, text)] == [found.start() for found in re.finditer(rf"\b{re.escape(name)}\b", text)]
