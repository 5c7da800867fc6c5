"""React -> Extract as a dspy.Module: called, saved, copied, compiled; what is built, is built once per program."""

from __future__ import annotations

import copy
import gc
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from tests.loops.helpers import Script, extract, react
from tests.loops.react_extract.helpers import add, run, shown
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.loops.react_extract_codecs import ExtractCodec, ReactCodec
from whichloop.protocol import Query, Role, Tool, Toolbox, run_sync


def answering(request: Any) -> Any:
    """A model that adds once, finishes, and answers; a pure function of the request."""
    if request.role is Role.ANSWER:
        return "[[ ## reasoning ## ]]\nIt is the sum.\n[[ ## answer ## ]]\n3"
    name, args = ("finish", "{}") if "observation_0" in shown(request) else ("add", '{"a": 1, "b": 2}')
    return f"[[ ## next_thought ## ]]\nOn.\n[[ ## next_tool_name ## ]]\n{name}\n[[ ## next_tool_args ## ]]\n{args}"


def test_program_is_called_like_any_module() -> None:
    program = ReactExtractProgram([add])
    with dspy.context(lm=lm_of(Script(then=answering))):
        prediction = program(query="1 + 2?")
        again = run_sync(program.acall(query="1 + 2?"))
    assert (prediction.answer, prediction.reasoning, prediction.stop) == ("3", "It is the sum.", "finished")
    assert prediction.trajectory["observation_0"] == 3
    assert again.toDict() == prediction.toDict()


@row("S2-8")
def test_program_has_two_predictors_and_extract_reasons_first() -> None:
    program = ReactExtractProgram([add])
    assert [name for name, _ in program.named_predictors()] == ["react", "extract"]
    assert list(program.extract.signature.output_fields) == ["reasoning"]
    assert list(program.react.signature.input_fields) == list(program.extract.signature.input_fields) == ["query", "trajectory"]


def improved() -> ReactExtractProgram:
    program = ReactExtractProgram([add])
    program.react.signature = program.react.signature.with_instructions("IMPROVED REACT")
    program.extract.signature = program.extract.signature.with_instructions("IMPROVED EXTRACT")
    program.react.demos = [
        dspy.Example(query="DEMO", trajectory="", next_thought="t", next_tool_name="finish", next_tool_args={}),
    ]
    return program


def requests_of(program: ReactExtractProgram) -> list[Any]:
    model = Script(then=answering)
    ReactExtract(program=program.program).run_sync(Query("Q"), Toolbox([add]), model)
    return [request.messages for request in model.requests]


def test_program_is_saved_and_loaded_as_json_and_then_asks_the_same(tmp_path: Path) -> None:
    file = tmp_path / "program.json"
    improved().save(str(file))
    assert json.loads(file.read_text("utf-8")).keys() == {"react", "extract", "metadata"}
    loaded = ReactExtractProgram([add])
    loaded.load(str(file))
    asked = requests_of(loaded)
    assert asked == requests_of(improved()) != requests_of(ReactExtractProgram([add]))
    assert "IMPROVED REACT" in asked[0][0].content
    assert "DEMO" in asked[0][1].content
    assert "IMPROVED EXTRACT" in asked[-1][0].content


def test_program_can_be_copied_deeply_and_the_copy_is_independent() -> None:
    program = improved()
    twin = copy.deepcopy(program)
    assert requests_of(twin) == requests_of(program)
    twin.react.demos = []
    assert requests_of(twin) != requests_of(program)
    program.set_lm(lm_of(Script(then=answering)))
    assert copy.deepcopy(program)(query="Q").answer == "3"


def test_program_compiles_with_labeled_few_shot_offline() -> None:
    trainset = [dspy.Example(query=f"Q{k}", answer=f"A{k}").with_inputs("query") for k in range(3)]
    compiled = dspy.LabeledFewShot(k=2).compile(ReactExtractProgram([add]), trainset=trainset)
    first, *_, last = requests_of(compiled)
    assert len(first) == 2, "an example without a React field is no demonstration of React"
    assert [message.role for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert re.search(r"\[\[ ## answer ## \]\]\nA\d", last[2].content)


def test_program_compiles_with_bootstrap_few_shot_and_keeps_the_traced_steps() -> None:
    trainset = [dspy.Example(query="1 + 2?", answer="3").with_inputs("query")]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        max_bootstrapped_demos=1,
        max_labeled_demos=0,
    )
    model = Script(then=answering)
    with dspy.context(lm=lm_of(model)):
        compiled = optimizer.compile(ReactExtractProgram([add]), trainset=trainset)
    assert model.roles == [Role.DECIDE, Role.DECIDE, Role.ANSWER]
    demo = compiled.react.demos[0]
    assert set(demo.keys()) >= {"query", "trajectory", "next_thought", "next_tool_name", "next_tool_args"}
    assert compiled.extract.demos[0]["answer"] == "3"
    assert "1 + 2?" in requests_of(compiled)[0][1].content


def test_codecs_are_told_apart_by_name() -> None:
    model = Script(react("finish"), extract("x"))
    run(ReactExtract(), model)
    run(ReactExtract(extract=False), only := Script(react("finish")))
    codecs = [request.codec for request in (*model.requests, *only.requests) if request.codec is not None]
    assert [type(codec) for codec in codecs] == [ReactCodec, ExtractCodec, ReactCodec]
    assert len({codec.name for codec in codecs}) == 3
    assert [codec.max_calls for codec in codecs] == [1, 0, 1]


# --- costs ---


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
