"""What covers a weakness: hints in the instructions, and demonstrations in every wire format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.phased.codecs import SELECT
from whichloop.loops.react_extract_codecs import ReactCodec, ReactStep
from whichloop.loops.stateless.signatures import AgentReasonerSignature, DecideCodec
from whichloop.metrics.record import Record
from whichloop.models.faults import answer_options
from whichloop.models.profiles import WEAKNESS_KINDS, load_profile
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.weaknesses import CURES, PHRASES, PromptParts, Slip, in_thousands, slips_of
from whichloop.protocol import Act, Codec, Inexpressible, Message, NativeCall, Plan, PlannedCall, Ref, ToolCall, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.protocol.wire import EXAMPLES, in_own_format, own_prompt
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial

from . import bench
from .weak_trials import KINDS, LAW, SPECS, TOOLS, noted, product, slip, told, weak

PLANS: dict[str, Plan] = {
    "unit": product(),
    "date": Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1")),
    "step": product(),
    "answer": product(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", KINDS)
def test_a_hint_cures_its_own_kind_and_no_other(kind: str, hint: str) -> None:
    trial = told(bench.Bench(PLANS[kind], weak(kind), tools=TOOLS), f"Solve it.\n{CURES[hint]}\nTools follow.")
    answer = run_sync(trial.run())
    assert (answer == trial.expected) is (kind == hint)
    assert bool(noted(trial)) is (kind != hint)


def says_a_hint(texts: list[str]) -> list[str]:
    return [text for text in texts for phrase in PHRASES.values() if phrase.search(text)]


def test_the_default_suite_says_no_hint_by_chance() -> None:
    loaded = make_suite(parse_spec("arithmetic(size=60)"))
    environment = loaded.open(loaded.tasks[0])
    texts = [json.dumps([tool.name, tool.description, tool.parameters]) for tool in environment.tools]
    environment.close()
    texts += [task.query.full_text for task in loaded.tasks]
    texts += [call.goal for task in loaded.tasks if task.plan is not None for call in task.plan.calls]
    assert not says_a_hint(texts)


def test_every_hint_holds_its_phrase() -> None:
    assert CURES.keys() == {kind.partition(".")[2] for kind in WEAKNESS_KINDS}
    for kind, hint in CURES.items():
        assert [other for other in CURES if PHRASES[other].search(hint)] == [kind]


WIRES: dict[str, Codec] = {
    "bare.json": FORMATS["json"],
    "bare.fields": FORMATS["fields"],
    "bare.native": FORMATS["native"],
    "native": NATIVE,
    "phased.select": SELECT,
    "react_extract": ReactCodec(ReactStep),
    "stateless": DecideCodec(AgentReasonerSignature),
}

LISTING = json.dumps([{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in TOOLS])
WORDS = "- times: The product. Arguments: " + json.dumps(SPECS["times"].parameters["properties"])


def turns(codec: Codec, call: ToolCall, question: str) -> list[Message]:
    """An example of a call in a loop's own format, after a list of tools."""
    reply = codec.render(Act("Next: find it.", (call,)))
    return [Message("user", f"{LISTING}\n{WORDS}\n\n{question}"), Message("assistant", reply.text, reply.calls)]


def covers(kind: str, examples: Sequence[Message]) -> bool:
    live = (Message("system", "Do it."), Message("user", "What is 7 times 9?"))
    return slip(kind).is_covered(PromptParts(live, examples))


each_wire = pytest.mark.parametrize("codec", WIRES.values(), ids=WIRES)


@each_wire
@LAW
@given(a=st.integers(1, 99), b=st.integers(1, 99) | st.floats(1, 99).map(lambda number: round(number, 2)), date=st.dates())
def test_a_call_as_it_was_asked_for_covers_its_kind_alone(codec: Codec, a: int, b: float, date: Any) -> None:
    asked, day = f"What is {a} times {b}?", f"What day is {date.isoformat()}?"
    spoiled = dict(slip("unit").spoiled(PlannedCall("x", "times", {"a": a, "b": b}, "x")).arguments)
    seats = ToolCall("seats", {"count": a})
    for kind, question, call, covered in (
        ("unit", asked, ToolCall("times", {"a": a, "b": b}), True),
        ("unit", asked, ToolCall("times", spoiled), False),
        ("unit", asked, seats, False),
        ("unit", "What is 7 times 700?", ToolCall("times", {"a": 7, "b": 700}), True),
        ("date", day, ToolCall("weekday", {"date": date.isoformat()}), True),
        ("date", day, ToolCall("weekday", {"date": date.strftime("%d/%m/%Y")}), False),
        ("date", day, ToolCall("times", {"a": 1, "b": 2}), False),
        ("date", day, ToolCall("weekday", {"date": date.isoformat(), "or": date.strftime("%d/%m/%Y")}), False),
        ("step", asked, ToolCall("times", {"a": 1, "b": 2}), True),
        ("step", asked, seats, False),
    ):
        assert covers(kind, turns(codec, call, question)) is covered, (kind, call)


@pytest.mark.parametrize("codec", [codec for name, codec in WIRES.items() if name not in ("phased.select", "react_extract")])
def test_a_plain_answer_covers_answer_and_one_in_thousands_does_not(codec: Codec) -> None:
    def example(value: str) -> list[Message]:
        for move in answer_options("So.", value, 0.9):
            with suppress(Inexpressible):
                reply = codec.render(move)
                return [Message("user", "What?"), Message("assistant", reply.text, reply.calls)]
        raise AssertionError("no answer can be said")

    assert Slip("answer").is_covered(PromptParts((), example("42")))
    assert not Slip("answer").is_covered(PromptParts((), example("0.042 thousand")))
    assert not Slip("answer").is_covered(PromptParts(example("42")))  # the task's own messages are no examples
    tool_s = [Message("assistant", "", (NativeCall("1", "times", '{"a": 1, "b": 2}'),)), Message("tool", "42", call_id="1")]
    assert not Slip("answer").is_covered(PromptParts((), tool_s))


@LAW
@given(answer=st.integers(-(10**6), 10**6), query=st.text("What is 5 times 9?\n", max_size=20))
def test_labelled_examples_under_the_instructions_cover_the_answer_alone(answer: int, query: str) -> None:
    prompt = replace(own_prompt("Do it.", "reply"), demos=({"query": query, "answer": answer},))
    shown = PromptParts(
        (Message("system", f"{in_own_format(prompt).text}\nTools:\n{WORDS}"), Message("user", "What is 7 times 9?"))
    )
    assert Slip("answer").is_covered(shown)
    assert not any(slip(kind).is_covered(shown) for kind in ("unit", "date", "step"))
    assert EXAMPLES in shown.instructions
    in_words = replace(prompt, demos=({"query": query, "answer": in_thousands(answer or 1)},))
    assert not Slip("answer").is_covered(PromptParts((Message("system", in_own_format(in_words).text),)))


EXTREMES = ["[" * 5000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "1e999", "9" * 5000, "-."]


@LAW
@given(text=st.text() | st.text('{}[]"\\:,times 0123456789.', max_size=200) | st.sampled_from(EXTREMES))
def test_whatever_the_examples_hold_reading_them_never_fails(text: str) -> None:
    examples = [Message("user", text), Message("assistant", text, (NativeCall("1", "times", text),))]
    for kind in ("unit", "date", "step"):
        covers(kind, examples)
        assert text not in EXTREMES or not covers(kind, [Message("assistant", f"times {text}")])
    Slip("answer").is_covered(PromptParts((), examples))
    plan = Plan((PlannedCall("c1", "seats", {"count": 500}, "Count."),), Ref("c1"))
    (found,) = slips_of(plan, weak("unit").weaknesses, (0,), SPECS)  # a number beyond all bounds is passed over
    beyond = [Message("user", "Are there 1e999 seats? "), Message("assistant", 'seats({"count": 5})')]
    assert not found.is_covered(PromptParts((), beyond))


DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")
DECIDES = {"bare": "decide", "finish": "decide", "phased": "select", "react_extract": "react", "stateless": "reasoner"}
"""Design → the predictor that decides on calls."""
STATES = DECIDES | {"phased": "answer", "react_extract": "extract"}
"""Design → the predictor that states the answer."""


def records(design: str, *kinds: str, only: str = "") -> list[Record]:
    """Of five tasks by a design, with hints of these kinds under the instructions of one predictor, or of all."""
    suite, loop = make_suite(parse_spec("arithmetic(size=5)")), cast(Any, make_loop(parse_spec(design), 12))
    hints = "\n".join(CURES[kind] for kind in kinds)
    program = {name: made for name, made in loop.predictors.items() if name == (only or name)}
    told = {name: replace(made, instructions=f"{made.instructions}\n{hints}") for name, made in program.items()}
    arm = Arm(design, parse_spec(design), loop.with_predictors(told), "scripted", load_profile("teachable"))
    return [run_sync(run_trial(Trial(arm, task, 0, 0), TrialContext(suite))).record for task in suite.tasks]


@pytest.mark.thorough
@pytest.mark.parametrize("design", DESIGNS)
def test_the_predictor_that_decides_needs_the_hint_about_calls(design: str) -> None:
    assert sum(record.accuracy for record in records(design)) < 3.5
    for kind, other, name in (("unit", "answer", DECIDES[design]), ("answer", "unit", STATES[design])):
        assert {fault.kind for record in records(design, kind, only=name) for fault in record.faults} == {f"weakness.{other}"}
    assert [record.accuracy for record in records(design, "unit", "answer")] == [1.0] * 5
