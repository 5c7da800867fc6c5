"""The grammars of the designs' codecs: every reply that one allows is one that the codec reads."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
from collections.abc import Iterator
from dataclasses import is_dataclass, replace

import pytest

import whichloop.loops
from tests.grammars import drawn_reply, is_allowed
from whichloop.checks.loop.codecs import codecs_of
from whichloop.loops.bare_codecs import BareCodec
from whichloop.loops.finish.output import JsonOutput, spec_of
from whichloop.loops.guarded import ConfirmCodec, NeededToolsCodec
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
    GrammarCodec,
    Inexpressible,
    Move,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    Understanding,
    WireError,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

NUMBER = {"type": "number"}
TOOLS = (
    ToolSpec("add", "", {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}),
    ToolSpec(
        "place",
        "",
        {
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/Spot"}},
            "required": ["at"],
            "$defs": {"Spot": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        },
    ),
)
OFFERED = (*TOOLS, spec_of(JsonOutput.of(None)))
"""What `finish` offers natively."""
DRAWS = 40
THOUGHT = "why"
PLAIN_MOVES: tuple[tuple[Move, ...], ...] = (
    (Act(THOUGHT, (ToolCall("add", {"a": 1, "b": 2.5}),)), Act("", (ToolCall("add", {"a": 1, "b": 2.5}),))),
    *((Answer(THOUGHT, value), Answer("", value)) for value in ("42", 'of [[ two ]] <words> & "more"')),
    (Text("none"),),
    (Understanding("sum", ("two", "three")),),
    (Completion(True, THOUGHT, ("the sum",)),),
)
"""Each with a thought, which a grammar asks for where the format has a place for it, and else without."""
DESIGNS = {
    "bare": {"bare.json"},
    'bare(decision_format="fields")': {"bare.fields"},
    'bare(decision_format="native")': {"bare.native"},
    "finish": {"finish.native"},
    "phased": {"phased.select", "phased.answer"},
    "react_extract": {"react_extract.react", "react_extract.extract"},
    "react_extract(extract=false)": {"react_extract.react_only"},
    "stateless": {"stateless.decide"},
}


@pytest.mark.parametrize("design", DESIGNS)
def test_every_reply_that_a_grammar_allows_is_read(design):
    codecs = [codec for codec, _ in asyncio.run(codecs_of(make_loop(parse_spec(design)))) if isinstance(codec, GrammarCodec)]
    assert {codec.name for codec in codecs} >= DESIGNS[design]
    for codec in codecs:
        called = {call.name for move in moves_drawn(codec, TOOLS) if isinstance(move, Act) for call in move.calls}
        if codec.role in (Role.DECIDE, Role.SELECT):
            assert called == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("design", [design for design in DESIGNS if design != "stateless"])
def test_what_a_codec_writes_is_allowed_by_its_grammar(design):
    """Not so `stateless`, which writes members that are null: its grammar leaves them out, so that replies are short."""
    codecs = [codec for codec, _ in asyncio.run(codecs_of(make_loop(parse_spec(design)))) if isinstance(codec, GrammarCodec)]
    written = [(codec, reply) for codec in codecs for moves in PLAIN_MOVES if (reply := written_by(codec, *moves)) is not None]
    assert len(written) > 1
    for codec, reply in written:
        assert is_allowed(replace(reply, text=reply.text.strip()), codec.grammar(TOOLS), OFFERED), (codec.name, reply)


def written_by(codec: Codec, *moves: Move) -> Reply | None:
    """The reply that states the first move which the format can say; None if it can say none."""
    for move in moves:
        try:
            return codec.render(move)
        except Inexpressible:
            pass
    return None


def test_a_reply_that_no_codec_writes_is_not_allowed():
    grammar = BareCodec().grammar(TOOLS)
    assert is_allowed(Reply('{"final_answer": "42"}'), grammar, TOOLS)
    for text in ("", "42", '{"final_answer": "42"} ', '{"thought": "why"}', '{"final_answer": null}', '{"tool_name": "add"}'):
        assert not is_allowed(Reply(text), grammar, TOOLS)


def moves_drawn(codec: GrammarCodec, tools: tuple[ToolSpec, ...]) -> Iterator[Move]:
    """Yield what the codec reads in replies that its grammar allows."""
    grammar, draw = codec.grammar(tools), random.Random(codec.name)
    for _ in range(DRAWS):
        reply = drawn_reply(grammar, tools, draw)
        try:
            yield codec.parse(reply)
        except WireError as error:
            raise AssertionError(f"{codec.name}: {error}: {reply.text}") from None


def test_the_requests_of_a_guard_have_grammars_too():
    needed = list(moves_drawn(NeededToolsCodec(), TOOLS))
    assert {name for move in needed if isinstance(move, Understanding) for name in move.entities} == {"add", "place"}
    assert list(moves_drawn(NeededToolsCodec(), ()))  # a trial without tools
    assert {move.done for move in moves_drawn(ConfirmCodec(), TOOLS) if isinstance(move, Completion)} == {True, False}


def test_a_codec_has_a_grammar_or_a_schema():
    modules = pkgutil.walk_packages(whichloop.loops.__path__, "whichloop.loops.")
    parts = [vars(importlib.import_module(module.name)).values() for module in modules]
    classes = {each for part in parts for each in part if isinstance(each, type) and is_dataclass(each)}
    codecs = {each for each in classes if hasattr(each, "parse") and hasattr(each, "render")}
    free = {codec.__name__ for codec in codecs if not hasattr(codec, "grammar") and not hasattr(codec, "schema")}
    assert len(codecs) > 10
    assert not free


@pytest.mark.parametrize("design", ["bare", "react_extract", "stateless"])
def test_without_tools_a_design_can_still_end(design):
    for codec, _ in asyncio.run(codecs_of(make_loop(parse_spec(design)))):
        if isinstance(codec, GrammarCodec):
            assert codec.grammar(()).alternatives
