"""Formats under a bad wire: a fault shows or is absorbed, it never says something else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.loop.random_moves import any_move
from whichloop.loops.bare_codecs import CODEC, FORMATS
from whichloop.loops.finish.answer import FinishCodec, Output, XmlCodec
from whichloop.loops.phased.codecs import ANSWER, PLAN, REASON, REFLECT, SELECT, UNDERSTAND, answer_codec
from whichloop.loops.react_extract_codecs import extract_codec, react_codec
from whichloop.loops.stateless.signatures import (
    AgentReasonerSignature,
    DecideCodec,
    ErrorRecoverySignature,
    FormatResponse,
    ProseCodec,
    RecoverCodec,
)
from whichloop.models.faults import spares, spoiled_reply
from whichloop.models.profiles import FAULT_KINDS, load_profile
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.server.foreign import ForeignCodec
from whichloop.protocol import Act, Answer, Codec, Inexpressible, Move, Reply, Text, ToolCall, WireError

from . import bench
from .bench import profile, run, settled

WIRE = sorted(kind for kind in FAULT_KINDS if kind.startswith("wire."))
CODECS: list[Codec] = [
    *FORMATS.values(), NATIVE, FinishCodec(Output.of(None)), XmlCodec(Output.of(None)), ForeignCodec(),
    UNDERSTAND, PLAN, SELECT, REFLECT, REASON, ANSWER, answer_codec({}),
    react_codec("Go.", extract=True), react_codec("Go.", extract=False),
    extract_codec("Go.", "null"), DecideCodec(AgentReasonerSignature), ProseCodec(FormatResponse, "formatter"),
    RecoverCodec(ErrorRecoverySignature),
]  # fmt: skip
CALL = Act("Next: find it.", (ToolCall("find", {"place": "the old harbour", "seats": 2}),))


def said(codec: Codec, seed: int) -> Move | None:
    """A move that the codec can say."""
    rng = random.Random(seed)
    for _ in range(20):
        move = any_move(rng)
        try:
            codec.render(move)
        except Inexpressible:
            continue
        return move
    return None


def reads(codec: Codec, reply: Reply) -> Move | None:
    try:
        return codec.parse(reply)
    except WireError:
        return None


def decision(move: Move | None) -> Move | None:
    """The move without its thought, which a fence may end up in."""
    return replace(move, thought="") if isinstance(move, Act | Answer) else move


# --- what a fault does to a format ---


@settings(deadline=None, max_examples=cases(75))
@given(codec=st.sampled_from(CODECS), kind=st.sampled_from(WIRE), seed=st.integers(0, 2**32))
def test_what_is_absorbed_reads_the_same(codec: Codec, kind: str, seed: int) -> None:
    move = said(codec, seed)
    if move is None:
        return
    clean = codec.render(move)
    spoiled, absorbed = spoiled_reply(kind, codec, move, clean)
    assert absorbed == (spoiled != clean and decision(reads(codec, spoiled)) == decision(move))


@pytest.mark.parametrize("kind", WIRE)
@pytest.mark.parametrize(
    "move",
    [CALL, *(Answer(thought, value) for thought in ("", "All results are in.") for value in ('["DTWG-230", "PNCV-245"]', "42")),
     Answer("", {"answer": "the old harbour", "names": ["Ada", "Bo"]}), Text("It stands by the old harbour.")],
)  # fmt: skip
def test_no_fault_of_the_wire_makes_a_format_say_something_else(kind: str, move: Move) -> None:
    """What a loop cannot notice says nothing about it. An empty reply can be noticed, whatever a format makes of it."""
    for codec in CODECS:
        try:
            clean = codec.render(move)
        except Inexpressible:
            continue
        if spares(kind, move, clean):
            assert clean.text in (getattr(move, "value", None), getattr(move, "text", None)), codec.name
            continue
        spoiled = spoiled_reply(kind, codec, move, clean)[0]
        assert spoiled != clean, codec.name
        read = decision(reads(codec, spoiled))
        assert read in (None, decision(move)) or not (spoiled.text or spoiled.calls), codec.name


@pytest.mark.parametrize("kind", WIRE)
def test_free_text_is_no_format(kind: str) -> None:
    spared = kind != "wire.empty"
    for codec in (NATIVE, FORMATS["native"], ANSWER, ForeignCodec()):
        assert spares(kind, Answer("", "42"), codec.render(Answer("", "42"))) is spared
    assert spares(kind, None, Reply("I cannot say this.")) is spared
    for codec in (CODEC, FORMATS["fields"]):
        assert not spares(kind, Answer("", "42"), codec.render(Answer("", "42")))
    assert not spares(kind, CALL, CODEC.render(CALL))
    assert not spares(kind, CALL, FORMATS["native"].render(CALL))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_reply_that_is_cut_says_so(codec: Codec) -> None:
    move = next(move for seed in range(200) if (move := said(codec, seed)) is not None)
    assert spoiled_reply("wire.truncated", codec, move, codec.render(move))[0].finish_reason == "length"


@pytest.mark.parametrize("name", FORMATS)
def test_nobody_ends_with_an_answer_that_the_wire_has_changed(name: str) -> None:
    for seed in range(25):
        trial = bench.Bench(bench.chain(2), load_profile("flaky-format"), seed=seed)
        assert run(trial, codec=FORMATS[name], limit=8) in (12, "12", None), seed


def test_what_is_spared_was_never_scheduled() -> None:
    for codec, points in ((CODEC, ["decide:answer", "decide:c1"]), (NATIVE, ["decide:c1"])):
        trial = bench.Bench(bench.chain(1), profile("wire.malformed"))
        assert str(run(trial, codec=codec)) == "2"
        assert [point for point, *_ in settled(trial)] == points
