"""What covers a weakness: hints in the instructions, and demonstrations in every wire format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.phased.codecs import SELECT
from whichloop.loops.react_extract_codecs import ReactCodec, ReactStep
from whichloop.loops.stateless.signatures import AgentReasonerSignature, decide_codec
from whichloop.models.faults import answer_options
from whichloop.models.profiles import WEAKNESS_KINDS
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.weaknesses import CURES, PromptParts, Slip, in_thousands, slips_of
from whichloop.protocol import (
    Act,
    Codec,
    Inexpressible,
    Message,
    Move,
    NativeCall,
    Plan,
    PlannedCall,
    Ref,
    ToolCall,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.protocol.program import EXAMPLES, in_own_format, own_prompt
from whichloop.runs.registry import generated_suites, make_loop

from . import bench
from .weak_trials import KINDS, LAW, SPECS, TOOLS, noted, product, slip, told, weak

# --- what covers a weakness: instructions ---


PLANS: dict[str, Plan] = {
    "unit": product(),
    "date": Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1")),
    "step": product(),
    "answer": product(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", KINDS)
def test_a_hint_cures_its_own_kind_and_no_other(kind: str, hint: str) -> None:
    trial = told(bench.Bench(PLANS[kind], weak(kind), tools=TOOLS), f"Solve it.\n{CURES[hint].hint}\nTools follow.")
    answer = run_sync(trial.run())
    assert (answer == trial.expected) is (kind == hint)
    assert bool(noted(trial)) is (kind != hint)


def test_what_the_model_or_a_tool_says_covers_nothing() -> None:
    hint = CURES["unit"].hint
    slip = Slip("unit")
    assert slip.is_covered(PromptParts((Message("user", hint),)))
    assert not slip.is_covered(PromptParts((Message("assistant", hint), Message("tool", hint, call_id="1"))))


@pytest.mark.parametrize(
    "suite",
    [pytest.param(name, marks=() if name in ("arithmetic", "events") else pytest.mark.slow) for name in sorted(generated_suites())],
)
def test_no_suite_says_a_hint_by_chance(suite: str) -> None:
    loaded = generated_suites()[suite].suite(None, 0)
    environment = loaded.open(loaded.tasks[0])
    texts = [json.dumps([tool.name, tool.description, tool.parameters]) for tool in environment.tools]
    environment.close()
    texts += [task.query.full_text for task in loaded.tasks]
    texts += [call.goal for task in loaded.tasks if task.plan is not None for call in task.plan.calls]
    assert not [text for text in texts for cure in CURES.values() if cure.phrase.search(text)]


@pytest.mark.parametrize("loop", ["bare", "finish", "phased", "react_extract", "stateless", "bare(decision_format=native)"])
def test_no_design_says_a_hint_by_itself(loop: str) -> None:
    made: Any = make_loop(parse_spec(loop), 5)
    texts = [prompt.instructions for prompt in made.predictors.values()]
    assert texts
    assert not [text for text in texts for cure in CURES.values() if cure.phrase.search(text)]


def test_every_hint_holds_its_phrase() -> None:
    assert CURES.keys() == {kind.partition(".")[2] for kind in WEAKNESS_KINDS}
    for kind, cure in CURES.items():
        assert [other for other in CURES if CURES[other].phrase.search(cure.hint)] == [kind]


# --- what covers a weakness: demonstrations, in every wire format ---


WIRES: dict[str, Codec] = {
    "bare.json": FORMATS["json"],
    "bare.fields": FORMATS["fields"],
    "bare.native": FORMATS["native"],
    "native": NATIVE,
    "phased.select": SELECT,
    "react_extract": ReactCodec(ReactStep),
    "stateless": decide_codec(AgentReasonerSignature),
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


@pytest.mark.parametrize("codec", WIRES.values(), ids=WIRES)
@LAW
@given(a=st.integers(1, 99), b=st.integers(1, 99) | st.floats(1, 99).map(lambda number: round(number, 2)))
def test_numbers_as_they_were_said_cover_unit_and_a_hundredth_does_not(codec: Codec, a: int, b: float) -> None:
    question = f"What is {a} times {b}?"
    assert covers("unit", turns(codec, ToolCall("times", {"a": a, "b": b}), question))
    spoiled = dict(slip("unit").spoiled(PlannedCall("x", "times", {"a": a, "b": b}, "x")).arguments)
    assert not covers("unit", turns(codec, ToolCall("times", spoiled), question))
    assert not covers("unit", turns(codec, ToolCall("seats", {"count": a}), question))


@pytest.mark.parametrize("codec", WIRES.values(), ids=WIRES)
@LAW
@given(date=st.dates())
def test_dates_with_the_year_first_cover_date_and_others_do_not(codec: Codec, date: Any) -> None:
    question = f"What day is {date.isoformat()}?"
    assert covers("date", turns(codec, ToolCall("weekday", {"date": date.isoformat()}), question))
    assert not covers("date", turns(codec, ToolCall("weekday", {"date": date.strftime("%d/%m/%Y")}), question))
    assert not covers("date", turns(codec, ToolCall("times", {"a": 1, "b": 2}), question))


@pytest.mark.parametrize("codec", WIRES.values(), ids=WIRES)
def test_any_call_of_the_tool_covers_step_and_a_list_of_tools_none(codec: Codec) -> None:
    assert covers("step", turns(codec, ToolCall("times", {"a": 1, "b": 2}), "So?"))
    assert not covers("step", turns(codec, ToolCall("seats", {"count": 1}), "So?"))
    for kind in ("unit", "date", "step"):
        listing = Message("user", f"{LISTING}\n{WORDS}\nWhat is 7 times 9 on 2026-05-03?")
        assert not covers(kind, [listing, Message("assistant", "63")])


def test_a_result_that_happens_to_be_said_elsewhere_is_no_number_of_the_question() -> None:
    """0.5 * 0.06, both spoiled, gave 0.03, which stands in another question; the call of it shows nothing."""
    texts = [
        Message("user", "What is 50 times 6, and its square?"),
        Message("assistant", "", (NativeCall("1", "times", '{"a": 0.5, "b": 0.06}'),)),
        Message("tool", "[r:aaaaaa.bbbb] 0.03 [aaaaaa.bbbb:r]", call_id="1"),
        Message("assistant", "", (NativeCall("2", "times", '{"a": 0.03, "b": 0.03}'),)),
        Message("user", "What is 0.03 less than 2?"),
    ]
    assert not covers("unit", texts)


@pytest.mark.parametrize("codec", [codec for name, codec in WIRES.items() if name not in ("phased.select", "react_extract")])
def test_a_plain_answer_covers_answer_and_one_in_thousands_does_not(codec: Codec) -> None:
    def example(value: str) -> list[Message]:
        move = next(move for move in answer_options("So.", value, 0.9) if expressible(codec, move))
        reply = codec.render(move)
        return [Message("user", "What?"), Message("assistant", reply.text, reply.calls)]

    assert Slip("answer").is_covered(PromptParts((), example("42")))
    assert not Slip("answer").is_covered(PromptParts((), example("0.042 thousand")))
    assert not Slip("answer").is_covered(PromptParts(example("42")))  # the task's own messages are no examples


def expressible(codec: Codec, move: Move) -> bool:
    try:
        codec.render(move)
    except Inexpressible:
        return False
    return True


def test_a_tool_s_number_is_no_answer() -> None:
    example = [Message("assistant", "", (NativeCall("1", "times", '{"a": 1, "b": 2}'),)), Message("tool", "42", call_id="1")]
    assert not Slip("answer").is_covered(PromptParts((), example))


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


@LAW
@given(text=st.text() | st.text('{}[]"\\:,times 0123456789.', max_size=200))
def test_whatever_the_examples_hold_reading_them_never_fails(text: str) -> None:
    examples = [Message("user", text), Message("assistant", text, (NativeCall("1", "times", text),))]
    for kind in ("unit", "date", "step"):
        covers(kind, examples)
    Slip("answer").is_covered(PromptParts((), examples))


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "1e999", "9" * 5000, "-."])
def test_reading_examples_copes_with_extremes(text: str) -> None:
    for kind in ("unit", "date", "step"):
        assert not covers(kind, [Message("assistant", f"times {text}")])


def test_a_number_beyond_all_bounds_is_passed_over() -> None:
    plan = Plan((PlannedCall("c1", "seats", {"count": 500}, "Count."),), Ref("c1"))
    (found,) = slips_of(plan, weak("unit").weaknesses, (0,), SPECS)
    examples = [Message("user", "Are there 1e999 seats? "), Message("assistant", 'seats({"count": 5})')]
    assert not found.is_covered(PromptParts((), examples))
