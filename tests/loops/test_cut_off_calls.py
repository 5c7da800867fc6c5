"""Calls that wait for a person, in a process that ends at any place: none runs undecided, or twice on one decision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper
from tests.loops.test_approval_events import Heard, again, giving_back, refunding
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.checkpoints.replayed_toolbox import CUT_OFF
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Loop, Observer, Outcome, Query, StopRun, Toolbox, ToolCall
from whichloop.protocol.digest import digest

ALIKE = ("native", "phased agent")
"""Designs that differ from another one in the form of their calls alone."""


class Killed(StopRun):
    """The process ends here."""


class Shop:
    """Tools that count what they do, and checkpoints whose process ends when a number of things have happened."""

    def __init__(self, end_at: int, after: bool) -> None:
        self.end_at, self.after = end_at, after
        self.count = 0
        self.lines: list[str] = []
        self.paid = Counter[str]()
        self.approved = Counter[str]()

    def _happens(self) -> None:
        self.count += 1
        if self.count == self.end_at:
            raise Killed

    def keep(self, entry: dict[str, Any]) -> None:
        """Store an entry; the process may end before it is stored, or right after."""
        if not self.after:
            self._happens()
        self.lines.append(json.dumps(entry))
        if self.after:
            self._happens()

    def price(self, item: str) -> str:
        """What an item costs."""
        self.paid[item] += 1
        self._happens()  # it has acted, and nobody knows
        return PRICES[item]

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(map(json.loads, self.lines), needs_approval=["price"], on_entry=self.keep)

    def decide(self) -> None:
        """A person lets all calls run that wait."""
        checkpoint = self.checkpoint()
        for waiting in checkpoint.pending:
            self.approved[waiting.call.arguments["item"]] += 1
            checkpoint.approve(waiting)

    def outcomes(self, loop: Loop) -> Iterator[Outcome[Any]]:
        """Carry the run out until it ends, whatever stops it; yield the outcome."""
        for _ in range(12):
            try:
                outcome = Resumable(loop, self.checkpoint()).run_sync(Query(QUESTION), Toolbox([self.price]), Shopper())
            except ApprovalRequired:
                try:
                    self.decide()
                except Killed:
                    continue
            except Killed:
                continue
            else:
                yield outcome
                return


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name for name in DESIGNS])
def test_a_process_that_ends_anywhere_lets_no_call_run_undecided_or_twice_on_one_decision(
    name: str, after: bool, every: int
) -> None:
    """It ends at every third place, one later where entries are stored before it ends; the slow tests take every place."""
    loop = DESIGNS[name]()
    whole = Shop(0, after)
    assert [one.answer for one in whole.outcomes(loop)] == [ANSWER]
    for end_at in range(whole.count - (after and every > 1), 0, -every):
        shop = Shop(end_at, after)
        assert [one.answer for one in shop.outcomes(loop)] == [ANSWER], end_at
        for item in PRICES:
            assert shop.paid[item] <= shop.approved[item], (end_at, item)


def test_a_call_that_was_cut_off_waits_with_the_reason_also_where_a_rule_had_let_it_through() -> None:
    lines: list[str] = []
    made = Counter[str]()

    def pay(to: str) -> str:
        """Pay somebody."""
        made[to] += 1
        if made[to] == 1:
            raise Killed
        return "paid"

    model = FakeModel(Act("", (ToolCall("pay", {"to": "ann"}),)), Answer("", "Done."))

    def run(rule: Any) -> Checkpoint:
        stored = map(json.loads, list(lines))
        checkpoint = Checkpoint(stored, needs_approval=rule, on_entry=lambda entry: lines.append(json.dumps(entry)))
        Resumable(Bare(), checkpoint).run_sync(Query("Pay."), Toolbox([pay]), model)
        return checkpoint

    with pytest.raises(Killed):
        run({"pay": lambda arguments: False})
    for rule in ({"pay": lambda arguments: False}, ()):
        with pytest.raises(ApprovalRequired, match=CUT_OFF):
            run(rule)
    assert made == Counter(ann=1)
    waiting = Checkpoint(map(json.loads, lines), on_entry=lambda entry: lines.append(json.dumps(entry)))
    assert waiting.pending[0].problem == CUT_OFF
    waiting.approve(waiting.pending[0])
    run(())
    assert made == Counter(ann=2)


def test_a_decision_that_comes_after_the_call_has_begun_decides_nothing() -> None:
    checkpoint = Checkpoint(needs_approval=["refund"])
    with pytest.raises(ApprovalRequired):
        refunding(checkpoint, giving_back(order="A"), Observer())
    call_id = checkpoint.pending[0].id
    late = again(checkpoint)
    checkpoint.approve(call_id)
    late.reject(call_id, "too late")
    entries = [*checkpoint.entries, {"kind": "begun", "call": call_id}, late.entries[-1]]
    with pytest.raises(ApprovalRequired, match=CUT_OFF):
        refunding(Checkpoint(entries), giving_back(order="A"), Observer())


def test_a_checkpoint_of_an_earlier_version_goes_on_and_makes_no_call_twice() -> None:
    made = Counter[str]()

    def counted(item: str) -> str:
        """What an item costs."""
        made[item] += 1
        if item == "milk" and made[item] == 1:
            raise Killed
        return PRICES[item]

    tools = Toolbox([counted])

    def asking(*items: str) -> FakeModel:
        return FakeModel(*(Act("", (ToolCall("counted", {"item": item}),)) for item in items), Answer("", "Done."))

    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        Resumable(Bare(), checkpoint).run_sync(Query(QUESTION), tools, asking("tea", "milk"))
    before = f"counted-{digest({'item': 'tea'})[:12]}-1"
    old = [{**entry, "call": before} if "call" in entry else entry for entry in checkpoint.entries]
    heard = Heard()
    assert Resumable(Bare(), Checkpoint(old)).run_sync(Query(QUESTION), tools, FakeModel(Answer("", "Done.")), heard).ok
    assert made == Counter(tea=1, milk=2)
