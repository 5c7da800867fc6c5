"""How far each design holds its answer to the query's schema, as docs/loops.md says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from loopbench.loops.bare import Bare
from loopbench.loops.finish import Finish
from loopbench.loops.phased import Phased
from loopbench.loops.react_extract import ReactExtract
from loopbench.loops.stateless import Stateless
from loopbench.models.fake import FakeItem, FakeModel
from loopbench.protocol import Answer, Loop, NativeCall, Query, Reply, StopReason, Toolbox, run_sync
from tests.loops.helpers import react


class Bill(BaseModel):
    total: int


def answered(loop: Loop, *items: FakeItem) -> tuple[Any, StopReason]:
    ended = run_sync(loop.run(Query("What is the bill?", schema=Bill), Toolbox(), FakeModel(*items)))
    return ended.answer, ended.stop


PHASED = Phased(understand=False, plan=False, reflect=False, max_tool_tasks=0)
UNCHECKED: list[tuple[Loop, FakeItem, Any]] = [
    (Bare(), Answer("", {"total": "many"}), '{"total": "many"}'),
    (Bare(), Answer("", {"total": 7}), '{"total": 7}'),
    (PHASED, Answer("", {"total": "many"}), {"total": "many"}),
    (Stateless(response_style=None), Answer("", '{"total": "many"}', 0.9), {"total": "many"}),
    (Stateless(response_style=None), Answer("", "About seven.", 0.9), "About seven."),
]


@pytest.mark.parametrize(("loop", "said", "answer"), UNCHECKED)
def test_what_a_design_does_not_check_comes_as_the_model_gave_it(loop: Loop, said: FakeItem, answer: Any) -> None:
    found, stop = answered(loop, said)
    assert (found, stop in (StopReason.FINISHED, StopReason.FORCED)) == (answer, True)


FINISH = Reply("", (NativeCall("c1", "__finish__", '{"total": "many"}'),))
EXTRACT = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## total ## ]]\nmany\n\n[[ ## completed ## ]]"
CHECKED: list[tuple[Loop, list[FakeItem]]] = [
    (Finish(max_steps=2, parse_retries=0), [FINISH]),
    (ReactExtract(), [react("finish"), EXTRACT]),
]


@pytest.mark.parametrize(("loop", "said"), CHECKED)
def test_what_a_design_checks_is_no_answer_if_it_does_not_fit(loop: Loop, said: list[FakeItem]) -> None:
    assert answered(loop, *said) == (None, StopReason.PARSE_FAILED)


@pytest.mark.parametrize("loop", [Finish(max_steps=2), ReactExtract()], ids=lambda loop: loop.name)
def test_what_fits_is_a_json_value(loop: Loop) -> None:
    said = [Answer("", {"total": 7})] if isinstance(loop, Finish) else [react("finish"), Answer("", {"total": 7})]
    assert answered(loop, *said) == ({"total": 7}, StopReason.FINISHED)
