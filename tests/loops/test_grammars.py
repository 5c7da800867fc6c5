"""The grammars of the designs' codecs: every reply that one allows is one that the codec reads."""

from __future__ import annotations

import asyncio
import random

import pytest

from loopbench.checks.loop.codecs import codecs_of
from loopbench.protocol import Act, GrammarCodec, Role, ToolSpec, WireError
from loopbench.protocol.names import parse_spec
from loopbench.runs.registry import make_loop
from tests.grammars import drawn_reply

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
DRAWS = 40
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
    draw = random.Random(design)
    for codec in codecs:
        grammar, called = codec.grammar(TOOLS), set()
        for _ in range(DRAWS):
            reply = drawn_reply(grammar, TOOLS, draw)
            try:
                move = codec.parse(reply)
            except WireError as error:
                raise AssertionError(f"{codec.name}: {error}: {reply.text}") from None
            called |= {call.name for call in move.calls} if isinstance(move, Act) else set()
        if codec.role in (Role.DECIDE, Role.SELECT):
            assert called == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("design", ["bare", "react_extract", "stateless"])
def test_without_tools_a_design_can_still_end(design):
    for codec, _ in asyncio.run(codecs_of(make_loop(parse_spec(design)))):
        if isinstance(codec, GrammarCodec):
            assert codec.grammar(()).alternatives
