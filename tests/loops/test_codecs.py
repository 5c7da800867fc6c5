"""The codecs of all designs: what they can say comes back as it was, and whatever a model writes is a move or a WireError."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.cases import cases
from tests.loops.drawn import ANYTHING, CONFIDENCES, JSON, NATIVE, STRATEGIES, TASKS, WORDS
from tests.loops.helpers import comes_back
from tests.rows import row
from whichloop.dspy_seam import SignatureCodec, chat_format
from whichloop.dspy_seam.requests import MAX_NESTED
from whichloop.loops.bare_codecs import BareCodec, FieldsCodec, NativeCallCodec
from whichloop.loops.finish import FinishCodec, StreamChunk, XmlCodec
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.hooks import MIN_GROWTH, partial_json, streamed
from whichloop.loops.phased.codecs import ANSWER, PLAN, REASON, REFLECT, SELECT, SUMMARIZE, UNDERSTAND, answer_codec, contexts_codec
from whichloop.loops.react_extract_codecs import extract_codec, react_codec
from whichloop.loops.stateless import AgentReasonerSignature, ErrorRecoverySignature
from whichloop.loops.stateless.signatures import (
    DecideCodec,
    FormatDetailedResponse,
    FormatResponse,
    ProseCodec,
    RecoverCodec,
    SummarizeEntries,
    SummarizeHistory,
    ValidateCodec,
    ValidateReasoning,
    constrained,
)
from whichloop.loops.stateless.state import json_copy
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Chunk, Move, NativeCall, Reply, ToolCall, run_sync
from whichloop.protocol.moves import Act, Answer, Codec, Completion, PlanTask, Recovery, Role, Tasks, Text, Understanding, WireError

EVENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "seats": {"type": "integer"},
        "price": {"type": "number"},
        "sold out": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "place": {"$ref": "#/$defs/place"},
        "copy": {"type": ["string", "null"]},
        "kind": {"enum": ["a", 2, None]},
        "a-b": {"type": "string"},
        "a_b": {"type": "string"},
        "a b": {"type": "string"},
        "reasoning": {"type": "string"},
        "model_name": {},
        'é <&> "': {"type": "string"},
        "": True,
    },
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}, "place": {"$ref": "#/$defs/place"}}}},
}


class Event(BaseModel):
    name: str
    seats: int = 0
    price: Decimal = Decimal(0)
    day: datetime.date | None = None
    tags: list[str] = []


def thoughtful(signature: Any) -> Any:
    """The signature that a chain of thought has."""
    return dspy.ChainOfThought(signature).predict.signature


BARE, FIELDS, CALL = BareCodec(), FieldsCodec(), NativeCallCodec()
BARE_NULL, FIELDS_NULL, CALL_NULL = BareCodec(takes_null=True), FieldsCodec(takes_null=True), NativeCallCodec(takes_null=True)
REACT, FINISHING = react_codec("Go on.", extract=True), react_codec("Go on.", extract=False)
EXTRACT, EXTRACT_EVENT, EXTRACT_ANY, EXTRACT_NUMBER = (
    extract_codec("State the answer.", json.dumps(schema)) for schema in (None, EVENT, {}, {"type": "number"})
)
TEXTS = {"type": "array", "items": {"type": "string"}}
OUTPUTS = [*(Output.of(schema) for schema in (None, EVENT, {"type": "number"}, TEXTS, {})), Output.of_model(Event)]
FINISHES, XMLS = [FinishCodec(output) for output in OUTPUTS], [XmlCodec(output) for output in OUTPUTS]
FINISH, FINISH_EVENT, FINISH_NUMBER, _, FINISH_ANY, FINISH_MODEL = FINISHES
XML, XML_EVENT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL = XMLS
FORCED = FinishCodec(OUTPUTS[0], "finish.forced", Role.ANSWER, 0)
CONTEXTS = contexts_codec({"c1": "3 [r:1]", "c2": "five [r:2]", "c3": ""})
TYPED, TYPED_NULL = answer_codec({"type": "integer"}), answer_codec({"type": ["integer", "null"]}, takes_null=True)
DECIDING = thoughtful(AgentReasonerSignature)
DECIDE, CONSTRAINED = DecideCodec(DECIDING), DecideCodec(constrained(DECIDING, ("add", "any")))
RECOVER, VALIDATE = RecoverCodec(thoughtful(ErrorRecoverySignature)), ValidateCodec(ValidateReasoning)
PROSE: list[Any] = [
    ProseCodec(FormatResponse, "formatter"),
    ProseCodec(thoughtful(FormatDetailedResponse), "formatter"),
    ProseCodec(SummarizeHistory, "history_summarizer"),
    ProseCodec(thoughtful(SummarizeEntries), "entry_summarizer"),
]
CODECS: dict[str, list[Codec]] = {
    "bare": [BARE, FIELDS, CALL, BARE_NULL, FIELDS_NULL, CALL_NULL],
    "react_extract": [REACT, FINISHING, EXTRACT, EXTRACT_EVENT, EXTRACT_ANY, EXTRACT_NUMBER],
    "finish": [*FINISHES, *XMLS, FORCED],
    "phased": [UNDERSTAND, PLAN, SELECT, REFLECT, REASON, SUMMARIZE, CONTEXTS, ANSWER, TYPED, TYPED_NULL],
    "stateless": [DECIDE, DecideCodec(DECIDING, calls_win=True), CONSTRAINED, RECOVER, VALIDATE, *PROSE],
}
each_design = pytest.mark.parametrize("design", CODECS)
ODD_CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))
EVENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(EVENT["properties"], ANYTHING))
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(ODD_CALLS, max_size=3).map(tuple)),
    st.builds(Answer, WORDS, ANYTHING | EVENTS | WORDS, CONFIDENCES | st.sampled_from([True, 2.0, float("nan"), "0.5"])),
    st.builds(Understanding, WORDS, st.lists(WORDS, max_size=3).map(tuple)),
    st.builds(Tasks, st.lists(TASKS, max_size=3).map(tuple), WORDS),
    st.builds(Completion, st.booleans(), WORDS | st.just(""), st.lists(WORDS, max_size=2).map(tuple), CONFIDENCES),
    st.builds(Recovery, STRATEGIES, st.none() | ODD_CALLS, WORDS),
    st.builds(Text, WORDS),
)
THOROUGH = settings(deadline=None, max_examples=cases(60))


@each_design
@THOROUGH
@given(move=MOVES)
def test_law_render_raises_inexpressible_or_the_move_comes_back(design: str, move: Move) -> None:
    for codec in CODECS[design]:
        comes_back(codec, move)


@each_design
def test_codecs_can_say_no_more_calls_than_they_tell(design: str) -> None:
    for codec in CODECS[design]:
        assert isinstance(codec, Codec)
        for count in (1, 2, codec.max_calls, codec.max_calls + 1):
            if comes_back(codec, Act("", (ToolCall("add", {}),) * count)):
                assert count <= codec.max_calls


# --- what is always expressible ---

PRINTABLE = (
    st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
    .map(str.strip)
    .filter(lambda text: not any(part in text for part in ("[[ ##", "<", "`", "&")))
)
NAMES = PRINTABLE.filter(lambda name: name not in ("", "finish", "__finish__"))
PLAIN = JSON.filter(lambda value: value is not None)
OBJECTS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
SURROGATES = re.compile("[\ud800-\udfff]")


@THOROUGH
@given(thought=PRINTABLE, name=NAMES, arguments=OBJECTS, value=PLAIN, text=st.text(max_size=12), most=st.integers(1, 3))
def test_bound_a_call_and_an_answer_with_printable_words_and_any_json(
    thought: str, name: str, arguments: dict[str, Any], value: Any, text: str, most: int
) -> None:
    act = Act(thought, (ToolCall(name, arguments),))
    codec: Codec
    for codec in (BARE, CALL, REACT, FINISHING, FINISH, FINISH_EVENT, FINISH_ANY, SELECT):
        assert comes_back(codec, act)
    assert comes_back(FIELDS, act) or any(f"{label}:" in thought + name for label in ("Thought", "Tool", "Arguments", "Answer"))
    for codec in (FINISH, SELECT):
        assert comes_back(codec, Act(thought, act.calls * most))
    for codec in (BARE, FINISHING, EXTRACT_ANY, FINISH_ANY, TYPED, TYPED_NULL):
        assert comes_back(codec, Answer(thought, value))
    for codec in (BARE, FINISH, FORCED, XML):
        assert comes_back(codec, Answer(thought, text))
    assert comes_back(BARE, Act(text, (ToolCall(text or "x", {text: text}),)))
    assert comes_back(REACT, Answer(thought))
    assert comes_back(EXTRACT, Answer(thought, name))
    assert comes_back(DECIDE, Answer("t", None, 0.0))
    assert comes_back(DECIDE, Answer("t", text, 0.5)) or SURROGATES.search(text)


@THOROUGH
@given(
    thought=PRINTABLE,
    text=PRINTABLE,
    numbers=st.tuples(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    words=st.lists(st.text(max_size=5), max_size=3),
    anything=JSON,
)
def test_bound_values_of_a_schemas_types(
    thought: str, text: str, numbers: tuple[int, float], words: list[str], anything: Any
) -> None:
    value = {"name": text, "seats": numbers[0], "price": numbers[1], "sold out": True, "copy": None, "a-b": text, "a_b": text}
    shared = {"a b": text, "grid": [[1, 2], [3]], "kind": "a", "reasoning": text, "model_name": anything, "": anything}
    whole = value | shared | {"tags": words, "place": {"city": text, "place": {"city": "y"}}, 'é <&> "': text}
    assert comes_back(EXTRACT_EVENT, Answer("r", whole))
    assert comes_back(XML_EVENT, Answer(thought, {"name": text, "seats": 3, "tags": words, "grid": [[1, 2], [3]], "copy": None}))
    assert comes_back(XML_EVENT, Answer(thought, {"place": {"city": text, "place": {"city": "y"}}, "price": 0.5}))
    for number in numbers:
        assert comes_back(XML_NUMBER, Answer(thought, number))
    assert comes_back(XML_LIST, Answer(thought, words))


# --- any text as a reply ---

VALID: list[str] = [
    BARE.render(Act("t", (ToolCall("add", {"a": 1}),))).text,
    BARE.render(Answer("t", [1])).text,
    REACT.render(Act("t", (ToolCall("add", {"a": 1}),))).text,
    FINISHING.render(Answer("t", 3)).text,
    EXTRACT_ANY.render(Answer("r", {"x": 1})).text,
    DECIDE.render(Act("t", (ToolCall("add", {"a": 1, "b": 2}),))).text,
    DECIDE.render(Answer("t", "3", 0.5)).text,
    RECOVER.render(Recovery("retry", ToolCall("add", {"a": 1}), "r")).text,
    VALIDATE.render(Completion(True, "", ("x",))).text,
    PLAN.render(Tasks((PlanTask("1", "x"),))).text,
    REFLECT.render(Completion(False, "r", ("m",))).text,
    XML_EVENT.render(Answer("t", {"name": "x", "tags": ["y"]})).text,
]
ALL = [codec for codecs in CODECS.values() for codec in codecs]
FIELD_NAMES = sorted({name for codec in ALL if isinstance(codec, SignatureCodec) for name in codec.signature.fields})
PARTS = st.builds(
    "{}[[ ## {} ## ]]{}{}\n".format, st.sampled_from(["", "- "]), st.sampled_from(FIELD_NAMES), st.sampled_from("\n "), WORDS
)
TAGS = st.builds(
    "<{}{}{}>".format,
    st.sampled_from(["", "/"]),
    st.sampled_from(["output", "answer", "name", "place", "city", "tags", "item"]),
    st.sampled_from(["", "/", ' x="1"']),
)
KEYS = ["intent", "entities", "tasks", "summary", "isComplete", "reasoning", "missingInfo", "contexts", "answer", "id", "tool_name"]
REPLIES = st.one_of(
    st.text(max_size=30),
    JSON.map(json.dumps),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5).map(json.dumps),
    st.lists(PARTS, max_size=5).map("".join),
    st.lists(TAGS | WORDS, max_size=12).map("".join),
    st.builds(
        lambda text, at, size, new: text[:at] + new + text[at + size :], st.sampled_from(VALID), *[st.integers(0, 300)] * 2, WORDS
    ),
)


def with_parameters(text: str) -> str:
    """A decision whose call has these parameters."""
    return VALID[5].replace('{"a": 1, "b": 2}', text)


def sections(codec: Any, text: str) -> str:
    return "\n".join(f"[[ ## {name} ## ]]\n{text}" for name in codec.signature.output_fields)


HOSTILE = [
    *("[" * 100_000, '{"a":' * 10_000, "9" * 5_000, '{"isComplete": NaN}'),
    '{"tasks": [{"id": "a", "description": "b", "taskType": ["x"]}]}',
    *(sections(codec, "[" * 5_000) for codec in (REACT, DECIDE)),
    sections(EXTRACT_NUMBER, f"{'-' * 100_000}1"),
    *map(with_parameters, ['{"a": ' + "[" * 10_000 + "]" * 10_000 + "}", '{"a": ' + "[" * 200 + "]" * 200 + "}", "[1]"]),
    *map(with_parameters, ['{"a": NaN, "b": Infinity}', '{"a": "\\ud800"}', f'{{"a": {"9" * 4_000}}}']),
    "<output>" * 3000 + "</output>",
    "<output>" + "<place>" * 1500 + "</place>" * 1500 + "</output>",
    "<output>" + "<answer>" * 3000 + "</output>",
    "<output>" + "<![CDATA[" * 5000 + "</output>",
    "<output><price>" + "9" * 5000 + "</price></output>",
]


def check_read(codec: Codec, reply: Reply) -> None:
    try:
        move = codec.parse(reply)
    except WireError as error:
        problem = str(error)
        move = None
    else:
        problem = "none"
    assert problem.strip(), "a model reads it"
    if isinstance(move, Act):
        assert len(move.calls) <= codec.max_calls or isinstance(codec, FinishCodec | XmlCodec)  # which read what they do not write
        assert not isinstance(codec, DecideCodec) or all(json_copy(call.arguments) == call.arguments for call in move.calls)
    if isinstance(codec, FinishCodec | XmlCodec):
        codec.output.stated_in_xml(reply.text)


@each_design
@THOROUGH
@given(text=REPLIES, calls=st.lists(NATIVE, max_size=3).map(tuple))
@row("X-6")
def test_any_reply_is_a_move_or_a_wire_error(design: str, text: str, calls: tuple[NativeCall, ...]) -> None:
    for codec in CODECS[design]:
        check_read(codec, Reply(text))
        check_read(codec, Reply(text, calls))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
@row("X-6")
def test_a_hostile_reply_is_a_move_or_a_wire_error(text: str) -> None:
    for codec in ALL:
        check_read(codec, Reply(text))
        check_read(codec, Reply("", (NativeCall("", "add", text),)))
        check_read(codec, Reply("", (NativeCall("", "__finish__", text),)))


# --- no reader takes more steps than a text has characters: steps are counted, never timed ---


class Plan(dspy.Signature):
    """State a plan."""

    query: str = dspy.InputField()
    steps: list[str] = dspy.OutputField()


@settings(deadline=None)
@given(st.sampled_from(["{", "[", '"', "a", "{'a':", "[[ ## ", "\\", "1,"]), st.integers(1, 30_000))
def test_values_are_repaired_only_if_they_are_short_and_flat(unit, times):
    repaired: list[str] = []

    def parse_value(text: str, annotation: Any) -> Any:
        repaired.append(text)
        raise ValueError("not repaired here")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chat_format, "parse_value", parse_value)
        patched.setattr(dspy.ChatAdapter, "parse", lambda self, signature, text: parse_value(text, None))
        with pytest.raises((AdapterParseError, ValueError)):
            chat_format.FORMAT.parse(Plan, f"[[ ## steps ## ]]\n{unit * times}")
    assert all(len(text) <= chat_format.MAX_REPAIRED for text in repaired)
    assert all(max(text.count("{"), text.count("[")) <= 2 * MAX_NESTED or unit == "[[ ## " for text in repaired)


# --- streams, and what scorers read ---


SMALL_MAX_EACH = 600
"""Characters up to which every piece is handed out, here: what the product takes would make each case take a second."""


@settings(max_examples=cases(8))
@given(st.integers(0, 15_000), st.sampled_from(["__finish__", "add"]))
def test_a_streamed_call_is_read_in_time_that_grows_with_its_length(chars, name):
    arguments = f'{{"answer": "{"x" * chars}"}}'
    given_out: list[StreamChunk] = []
    read: list[int] = []

    def counting(text: str) -> Any:
        read.append(len(text))
        return partial_json(text)

    async def chunks() -> AsyncIterator[Chunk]:
        for chunk in pieces(Reply("", (NativeCall("1", name, arguments),))):
            yield chunk

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("whichloop.loops.finish.hooks.partial_json", counting)
        patched.setattr("whichloop.loops.finish.hooks.MAX_EACH", SMALL_MAX_EACH)
        reply = run_sync(streamed(chunks(), Output.of(None), given_out.append))
    assert reply.calls[0].arguments == arguments
    longer = [length for length in read if length > SMALL_MAX_EACH]
    assert all(after >= before * (1 + MIN_GROWTH) for before, after in pairwise(longer[:-1]))
    assert sum(longer) <= (2 + 1 / MIN_GROWTH) * len(arguments)
    if name == "__finish__":
        assert given_out[-1].partial == {"answer": "x" * chars}
    assert given_out[-1].done


@pytest.mark.parametrize("value", ["{s:e,'```json{':```", "[{s:e,'```json{':```]"])
def test_a_value_on_which_the_repair_itself_fails_is_unreadable(value):
    """json_repair 0.64 raises AssertionError; found by benchmarks/hostile_replies.py, block 77."""
    with pytest.raises(AdapterParseError):
        chat_format.FORMAT.parse(Plan, f"[[ ## steps ## ]]\n{value}")
