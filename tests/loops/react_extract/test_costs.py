"""React -> Extract: what is built, is built once per program, not once per step."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import dspy

from tests.loops.helpers import Script, extract, react
from tests.loops.react_extract.helpers import run
from whichloop.dspy_seam import lm_of
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.protocol import (
    Tool,
)


def created(work: Callable[[], object]) -> int:
    """How many signature classes a piece of work makes; none that is there before it goes meanwhile."""
    gc.disable()
    try:
        before = len(dspy.Signature.__subclasses__())
        work()
        return len(dspy.Signature.__subclasses__()) - before
    finally:
        gc.enable()


def counted(work: Callable[[], object], *functions: Any) -> Counter[str]:
    """How often functions are entered during a piece of work."""
    codes = {function.__code__: function.__qualname__ for function in functions}
    seen: Counter[str] = Counter()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            seen[codes[frame.f_code]] += 1

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def tool_named(name: str) -> Tool:
    return Tool.from_function(lambda a, b: a + b, name=name, description="Add.", blocking=False)


def test_cost_is_flat_no_class_and_no_system_message_per_step() -> None:
    def go(steps: int, name: str) -> None:
        model = Script(*[react(name, a=1, b=2)] * steps, react("finish"), extract("x"))
        outcome = run(ReactExtract(max_iterations=100), model, tool_named(name))
        assert outcome.steps == steps + 1

    go(1, "warm")
    assert created(lambda: go(2, "first")) == created(lambda: go(40, "second")) == 1
    assert created(lambda: go(40, "second")) == 0
    rendering = (dspy.Adapter.format_system_message, dspy.ChatAdapter.format_field_structure, dspy.Adapter.format_demos)
    short, long = counted(lambda: go(2, "third"), *rendering), counted(lambda: go(40, "fourth"), *rendering)
    assert short == long == {"Adapter.format_system_message": 1, "ChatAdapter.format_field_structure": 1}
    assert not counted(lambda: go(40, "fourth"), *rendering)


def test_cost_is_flat_through_predictors_too() -> None:
    def go(steps: int, name: str) -> None:
        model = Script(*[react(name, a=1, b=2)] * steps, react("finish"), extract("x"))
        with dspy.context(lm=lm_of(model)):
            ReactExtractProgram([tool_named(name)], ReactExtract(max_iterations=100))(query="Q")

    go(1, "warm")
    assert created(lambda: go(2, "fifth")) == created(lambda: go(20, "sixth"))
    short = counted(lambda: go(2, "seventh"), dspy.Adapter.format_system_message)
    assert short == counted(lambda: go(20, "eighth"), dspy.Adapter.format_system_message)
