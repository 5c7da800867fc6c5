"""A person's approval: which calls wait for it, and what comes of a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.shopper import QUESTION
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.checkpoints.replay import Replay
from whichloop.loops.checkpoints.replayed_toolbox import EDITED, REJECTED
from whichloop.loops.finish import Finish
from whichloop.loops.resumable import Resumable
from whichloop.loops.shared.call_ids import RunFailure
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Loop, NativeCall, Outcome, Query, Reply, Toolbox, ToolCall, run_sync


def test_a_rejected_call_is_an_error_that_the_model_reads() -> None:
    model = FakeModel(Act("Look.", (ToolCall("price", {"item": "tea"}),)), Answer("", "I may not."))
    checkpoint, made = Checkpoint(needs_approval=["price"]), list[str]()

    def price(item: str) -> str:
        """What an item costs."""
        made.append(item)
        return "1.5"

    loop = Resumable(Bare(), checkpoint)
    with pytest.raises(ApprovalRequired, match=r"^waiting for a person to approve or reject: price$") as stopped:
        loop.run_sync(Query(QUESTION), Toolbox([price]), model)
    assert stopped.value.pending == checkpoint.pending
    (waiting,) = Checkpoint(json.loads(json.dumps(checkpoint.entries))).pending
    assert waiting.call == ToolCall("price", {"item": "tea"})
    checkpoint.reject(waiting, "too dear")
    assert loop.run_sync(Query(QUESTION), Toolbox([price]), model).answer == "I may not."
    assert f"Rejected: {REJECTED}: too dear" in model.requests[-1].messages[-1].content
    assert made == []


@pytest.mark.parametrize(
    "loop", [Finish(max_steps=4), Bare(), Stateless(enable_error_recovery=False, response_style=None)], ids=lambda loop: loop.name
)
def test_a_person_is_not_asked_about_a_call_that_will_be_refused_anyway(loop: Loop) -> None:
    def refund(cents: int) -> str:
        """Give money back."""
        return "given back"

    closing = Answer("", "Done.", 0.9 if isinstance(loop, Stateless) else None)
    model = FakeModel(*(Act("", (ToolCall("refund", {"cents": cents}),)) for cents in ("many", 5)), then=closing)
    checkpoint = Checkpoint(needs_approval=["refund"])
    tools = Toolbox([refund], check_arguments=True, time_limit_s=9)
    with pytest.raises(ApprovalRequired):
        Resumable(loop, checkpoint).run_sync(Query("Give it back."), tools, model)
    assert [one.call.arguments for one in checkpoint.pending] == [{"cents": 5}]


def refund(amount: int) -> str:
    """Give money back."""
    return f"{amount} given back"


def giving_back(*amounts: Any) -> FakeModel:
    return FakeModel(*(Act("", (ToolCall("refund", {"amount": amount}),)) for amount in amounts), then=Answer("", "Done."))


def refunding(loop: Loop, checkpoint: Checkpoint, model: FakeModel) -> Outcome[Any]:
    return Resumable(loop, checkpoint).run_sync(Query("Give it back."), Toolbox([refund]), model)


def above_100(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["amount"] > 100)


@pytest.mark.parametrize("loop", [Finish(max_steps=4), Bare()], ids=lambda loop: loop.name)
def test_a_rule_says_which_calls_wait_and_a_person_may_change_their_arguments(loop: Loop) -> None:
    checkpoint, model = Checkpoint(needs_approval={"refund": above_100}), giving_back(50, 500)
    with pytest.raises(ApprovalRequired):
        refunding(loop, checkpoint, model)
    (waiting,) = checkpoint.pending
    assert waiting.call.arguments == {"amount": 500}
    checkpoint.approve(waiting, arguments={"amount": "half"})
    stored = json.loads(json.dumps(checkpoint.entries))
    again = Checkpoint(stored, needs_approval={"refund": lambda _: False})  # a decision that was asked for once counts
    with pytest.raises(ApprovalRequired, match=r"refund \(the arguments that were given to refund do not fit: .*amount"):
        refunding(loop, again, model)
    again.approve(again.pending[0], arguments={"amount": 60})
    assert refunding(loop, again, model).answer == "Done."
    shown = [message.content for message in model.requests[-1].messages]
    assert any("50 given back" in text and "A person" not in text for text in shown)
    assert EDITED.format(arguments='{"amount": 60}').strip() + " 60 given back" in shown[-1].replace('\\"', '"')


def test_a_call_that_a_rule_cannot_judge_waits_and_a_rule_is_a_plain_function() -> None:
    checkpoint = Checkpoint(needs_approval={"refund": above_100})
    with pytest.raises(ApprovalRequired):
        refunding(Bare(), checkpoint, giving_back("many"))

    async def asks(arguments: Mapping[str, Any]) -> bool:
        return True

    def of_two(name: str, arguments: Mapping[str, Any]) -> bool:
        return True

    for rule, wrong in ((asks, "an async function"), (3, "3"), (of_two, r"one that takes \(name: .*")):
        with pytest.raises(TypeError, match=f"^needs_approval: the rule of 'refund' must be a plain function .*, not {wrong}$"):
            Checkpoint(needs_approval=cast(Any, {"refund": rule}))
    for names, told in ((above_100, r"give a list of tools' names or a mapping .*, not function"), ([3], "a tool's name .* not 3")):
        with pytest.raises(TypeError, match=f"^needs_approval: {told}$"):
            Checkpoint(needs_approval=cast(Any, names))
    for arguments in ([1], {"amount": {1}}):
        with pytest.raises(ValueError, match=r"^approve: arguments must be a JSON object"):
            checkpoint.approve(checkpoint.pending[0], arguments=cast(Any, arguments))


def test_a_tool_that_asks_for_approval_itself_ends_the_run_with_what_to_do() -> None:
    def refund(amount: int) -> str:
        """Give money back."""
        raise ApprovalRequired(cast(Any, ()))

    model = FakeModel(Act("", (ToolCall("refund", {"amount": 3}),)))
    with pytest.raises(ApprovalRequired, match=r"^a tool raised ApprovalRequired, .*: name the tool in Checkpoint") as stopped:
        Bare().run_sync(Query("Give it back."), Toolbox([refund]), model)
    assert stopped.value.pending == ()


def wiping(written: dict[str, Any], rule: Any, *, check: bool) -> tuple[bool, list[tuple[Any, ...]]]:
    """Whether a call waits for a person, and what the tool has got of it."""
    got: list[tuple[Any, ...]] = []

    def wipe(order: str, force: bool = False, cents: float = 5000.0) -> str:
        """Wipe an order."""
        got.append((order, force, cents))
        return "wiped"

    replies = [NativeCall("1", "wipe", json.dumps(written)), NativeCall("2", "__finish__", '{"answer": "x"}')]
    model = FakeModel(*(Reply("", (call,)) for call in replies))
    checkpoint = Checkpoint(needs_approval={"wipe": rule})
    try:
        run_sync(Resumable(Finish(max_steps=4), checkpoint).run(Query("?"), Toolbox([wipe], check_arguments=check), model))
    except ApprovalRequired:
        return True, got
    return False, got


@pytest.mark.parametrize("check", [True, False])
@given(
    force=st.sampled_from([True, False, "true", "false", "yes", "no", 1, 0, None]),
    cents=st.sampled_from([None, 1, "2", 5000, "6000"]),
)
def test_a_rule_judges_what_the_tool_gets_whatever_the_model_wrote(check, force, cents):
    written = {"order": "A", **({} if force is None else {"force": force}), **({} if cents is None else {"cents": cents})}

    def rule(arguments):
        return arguments["force"] is True or arguments["cents"] >= 5000

    waits, got = wiping(written, rule, check=check)
    assert waits == (not got)
    assert not any(was_forced is True or paid >= 5000 for _, was_forced, paid in got)


def test_of_two_people_who_decide_at_once_the_one_who_rejects_counts():
    call = ToolCall("wipe", {"order": "A"}, "a")
    for verdicts in ([True, False], [False, True], [False, False], [True, True]):
        checkpoint = Checkpoint()
        run_sync(Replay(checkpoint, RunFailure()).wait_for_person(call, Toolbox()))
        reviewers = [Checkpoint(list(checkpoint.entries), on_entry=checkpoint.entries.append) for _ in verdicts]
        for reviewer, verdict in zip(reviewers, verdicts, strict=True):
            reviewer.approve("a") if verdict else reviewer.reject("a", "no")
        decision = Replay(Checkpoint(checkpoint.entries), RunFailure()).decision(call)
        assert decision is not None
        assert decision["approved"] == all(verdicts)
