"""A decision is bound to what a person was shown: of a call that waits otherwise by now, none of before counts."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from whichloop.loops import ApprovalRequired, Bare, Checkpoint, PendingCall, Query, Resumable, Toolbox, ToolCall
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Observer

Decision = Callable[[Checkpoint, Any, str | None], None]
DECISIONS: dict[str, Decision] = {
    "approve": lambda one, call, version: one.approve(call, version=version),
    "edit": lambda one, call, version: one.approve(call, arguments={"order": "A7", "cents": 1}, version=version),
    "reject": lambda one, call, version: one.reject(call, "no", version=version),
    "answer": lambda one, call, version: one.answer(call, "paid", version=version),
}
EDIT = {"order": "A7", "cents": 999_999}


class Shop:
    """A tool that pays and raises after its first payment, and the checkpoint of its run."""

    def __init__(self, rule: Any = ("refund",), cents: Any = 4200) -> None:
        self.paid: list[Any] = []
        self.cents = cents
        self.checkpoint = Checkpoint(needs_approval=rule)

    def refund(self, order: str, cents: int, currency: str = "EUR") -> str:
        """Pay back."""
        self.paid.append(cents)
        if len(self.paid) == 1:
            raise OSError("connection lost after paying")
        return "ok"

    def run(self) -> PendingCall | None:
        calls = () if self.checkpoint.entries else (ToolCall("refund", {"order": "A7", "cents": self.cents}),)
        model = FakeModel(*(Act("", (call,)) for call in calls), then=Answer("", "Done."))
        try:
            Resumable(Bare(), self.checkpoint).run_sync(Query("?"), Toolbox([self.refund]), model, Observer())
        except ApprovalRequired as stopped:
            return stopped.pending[0]
        return None


def waiting_again(kind: str) -> tuple[Shop, PendingCall, PendingCall]:
    """A call that waits again: what Bob's page shows, and what waits now."""
    shop = Shop()
    bobs = shop.run()
    assert bobs is not None
    shop.checkpoint.approve(bobs, arguments={"order": "A7", "cents": "many"} if kind == "edited" else None, by="Ann")
    now = shop.run()
    assert now is not None
    return shop, bobs, now


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("kind", ["edited", "may have acted"])
def test_a_page_of_before_decides_nothing_and_what_waits_now_is_told(decision: str, kind: str) -> None:
    shop, bobs, now = waiting_again(kind)
    before, decide = json.dumps(shop.checkpoint.entries), DECISIONS[decision]
    stale: list[tuple[Any, str | None]] = [(bobs, None), (bobs.id, bobs.version), (now, bobs.version), (now.id, "")]
    for call, version in stale:
        with pytest.raises(
            ValueError, match=rf"^call '{now.id}' is not what was shown: it waits with .*; look at it anew$"
        ) as told:
            decide(shop.checkpoint, call, version)
        assert now.problem in str(told.value)
    with pytest.raises(ValueError, match=rf"^call '{now.id}' waits again, with .* give the PendingCall or its version"):
        decide(shop.checkpoint, now.id, None)
    assert json.dumps(shop.checkpoint.entries) == before
    for call, version in ((now, None), (now.id, now.version), (now, now.version)):
        decide(Checkpoint(json.loads(before)), call, version)
    assert bobs.version != now.version


def test_anything_else_than_what_waits_is_refused() -> None:
    shop = Shop()
    shown = shop.run()
    assert shown is not None
    others = [
        replace(shown, arguments={**shown.arguments, "cents": 1}),
        replace(shown, problem="seen"),
        replace(shown, version="other"),
        replace(shown, idempotency_key=""),
    ]
    for other in others:
        with pytest.raises(ValueError, match="is not what was shown"):
            shop.checkpoint.approve(other)
    with pytest.raises(TypeError, match=r"^version: give a text, not int$"):
        shop.checkpoint.approve(shown, version=cast(Any, 3))
    as_a_browser_sends_it = replace(shown, arguments={**shown.arguments, "cents": 4200.0})
    shop.checkpoint.approve(as_a_browser_sends_it)


def test_a_call_of_another_run_is_refused_although_its_id_is_the_same() -> None:
    one, other = Shop(), Shop()
    mine, theirs = one.run(), other.run()
    assert mine is not None
    assert theirs is not None
    assert (mine.id, mine.arguments) == (theirs.id, theirs.arguments)
    assert mine.version != theirs.version
    with pytest.raises(ValueError, match=rf"^call '{mine.id}' is that of another run"):
        one.checkpoint.approve(theirs)
    with pytest.raises(ValueError, match="is not what was shown"):
        one.checkpoint.approve(theirs.id, version=theirs.version)


def test_a_decision_that_another_process_stores_about_an_asking_of_before_does_not_count() -> None:
    shop = Shop()
    bobs = shop.run()
    assert bobs is not None
    copy = Checkpoint(json.loads(json.dumps(shop.checkpoint.entries)))  # Bob's, which hears of nothing that follows
    shop.checkpoint.approve(bobs, by="Ann")
    now = shop.run()
    for decide in DECISIONS.values():
        stale = Checkpoint(list(copy.entries))
        decide(stale, bobs, None)
        shop.checkpoint = Checkpoint([*shop.checkpoint.entries, stale.entries[-1]], needs_approval=["refund"])
        assert shop.checkpoint.pending == (now,)
        assert shop.run() == now
    assert shop.paid == [4200]


def _floats(entry: dict[str, Any]) -> dict[str, Any]:
    """What an entry shows, with 4200.0 in the place of 4200."""
    return {key: {**entry[key], "cents": 4200.0} for key in ("arguments", "received") if key in entry}


def test_a_version_is_the_same_in_every_process_and_store_and_stays_while_the_call_waits() -> None:
    shop = Shop()
    shown = shop.run()
    again = shop.run()
    assert shown is not None
    assert again is not None
    entries = json.loads(json.dumps(shop.checkpoint.entries))
    as_a_store_writes_it = [{**entry, "version": ""} | _floats(entry) for entry in entries]
    assert shown.version == again.version == Checkpoint(as_a_store_writes_it).pending[0].version
    old = [{key: entry[key] for key in entry if key not in ("version", "like")} for entry in entries]
    (waiting,) = Checkpoint(old).pending
    assert waiting.version == shown.version
    shop.checkpoint = Checkpoint(old, needs_approval=["refund"])
    shop.checkpoint.approve(waiting)
    assert shop.run() is not None
    assert shop.paid == [4200]


def test_each_asking_has_a_version_of_its_own() -> None:
    shop, first, second = waiting_again("may have acted")
    shop.paid.clear()
    shop.checkpoint.approve(second)
    third = shop.run()
    assert third is not None
    assert (second.problem, second.arguments) == (third.problem, third.arguments)
    for one, other in itertools.combinations((first, second, third), 2):
        assert one.version != other.version
    with pytest.raises(ValueError, match="is not what was shown"):
        shop.checkpoint.approve(second)


def test_a_rule_that_cannot_judge_says_in_the_problem_why_and_keeps_keys_to_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "my-own-key-4711")

    def strict(arguments: Any) -> bool:
        raise KeyError("my-own-key-4711")

    rules: list[tuple[Any, Any, str]] = [
        (
            lambda arguments: arguments["cents"] > 100,
            [4200],
            "raised TypeError: '>' not supported between instances of 'list' and 'int'",
        ),
        (strict, 4200, "raised KeyError: '[redacted]'"),
        (lambda arguments: "no", 4200, "returned 'no', which is neither True nor False"),
    ]
    for rule, cents, why in rules:
        with caplog.at_level(logging.WARNING):
            shown = Shop({"refund": rule}, cents).run()
        assert shown is not None
        assert shown.problem == f"the rule of refund {why}, so that it judges nothing"
    assert "4711" not in caplog.text


@pytest.mark.parametrize("field", ["like", "version", "problem", "by"])
def test_an_entry_with_what_is_no_text_is_refused(field: str) -> None:
    for kind in ({"kind": "begun", "call": "a"}, {"kind": "pending", "call": "a", "tool": "refund", "arguments": {}}):
        with pytest.raises(ValueError, match=r"^entries\[0\] is no entry of a checkpoint"):
            Checkpoint([{**kind, field: 3}])
