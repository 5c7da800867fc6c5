"""Each family of faults through a minimal loop: how it lands, and what clears it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

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
from whichloop.models.policy import MADE_UP
from whichloop.models.profiles import FAULT_KINDS, OF_CALLS
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.server.foreign import ForeignCodec
from whichloop.protocol import Act, Answer, Codec, Inexpressible, Move, Reply, Request, Text, ToolCall, WireError, run_sync

from . import bench
from .bench import OneCall, profile, run, settled


@pytest.mark.parametrize("kind", ["wire.malformed", "wire.truncated", "decision.unknown_tool", "tool.raises", "tool.garbage"])
def test_feedback_clears_a_fault_at_the_next_attempt(kind: str) -> None:
    trial = bench.Bench(bench.chain(3), profile(kind, notices=1.0))
    assert run(trial) == 22
    assert len(trial.tunnel.faults) == (4 if kind.startswith("wire.") else 3)
    assert all(landed and recovered for _, _, landed, _, recovered in settled(trial))
    assert len(trial.ear.exchanges) == 4 + len(trial.tunnel.faults)


@pytest.mark.parametrize(
    ("kind", "point", "more"),
    [
        ("wire.malformed", "decide:c1", {"feedback": False}),
        ("decision.unknown_tool", "decide:c1", {"feedback": False}),
        ("wire.fenced", "decide:c1", {}),
        ("decision.unknown_tool", "decide:c1", {}),
        ("tool.garbage", "tool:c1", {}),
        ("provider.timeout", "decide:c1", {}),
    ],
)
def test_without_feedback_or_where_it_never_clears_a_fault_stays(kind: str, point: str, more: dict[str, bool]) -> None:
    trial = bench.Bench(bench.chain(3), profile(kind, never=0 if more else 1, notices=1.0))
    assert run(trial, limit=6, **more) is None
    assert settled(trial) == [(point, kind, True, False, False)]
    if more:
        assert trial.ear.replies == trial.ear.replies[:1] * 6, "the same again, word for word"


@pytest.mark.parametrize("kind", ["tool.raises", "mcp.error", "provider.rate_limit"])
@pytest.mark.parametrize("feedback", [True, False])
def test_an_outage_takes_its_attempts_whatever_is_shown(kind: str, feedback: bool) -> None:
    takes = set()
    for seed in range(6):
        trial = bench.Bench(bench.chain(1), profile(kind, attempts=2), seed=seed)
        assert run(trial, feedback=feedback, limit=40) == 2
        struck = sum(fault == kind for *_, fault in (*trial.ear.exchanges, *trial.ear.tool_calls))
        assert struck == sum(fault.attempts for fault in trial.tunnel.faults)
        takes |= {fault.attempts for fault in trial.tunnel.faults}
    assert len(takes) > 2


class Lenient(OneCall):
    """Reads the first JSON object that stands anywhere in the text."""

    def render(self, move: Any) -> Reply:
        return CODEC.render(move)

    def parse(self, reply: Reply) -> Any:
        try:
            data, _ = json.JSONDecoder().raw_decode(reply.text[max(reply.text.find("{"), 0) :])
        except ValueError as error:
            raise WireError(str(error)) from None
        return CODEC.parse(Reply(json.dumps(data)))


@pytest.mark.parametrize("kind", sorted(kind for kind in FAULT_KINDS if kind.startswith("wire.")))
def test_a_spoiled_reply_lands_and_is_absorbed_iff_the_format_still_reads_it(kind: str) -> None:
    for codec, reads in ((CODEC, False), (Lenient(), kind in ("wire.fenced", "wire.duplicated"))):
        trial = bench.Bench(bench.chain(1), profile(kind))
        assert run(trial, codec=codec) == 2
        assert [point for point, *_ in settled(trial)] == ["decide:answer", "decide:c1"]
        assert settled(trial)[1] == ("decide:c1", kind, True, reads, True)


@pytest.mark.parametrize(
    "kind", ["unknown_tool", "missing_argument", "extra_argument", "wrong_type", "wrong_value", "early_finish", "no_tool"]
)
def test_a_wrong_decision_lands_as_another_move(kind: str) -> None:
    clean, trial = bench.Bench(bench.chain(1)), bench.Bench(bench.chain(1), profile(f"decision.{kind}"))
    answers = [run(clean), run(trial)]
    moves = [CODEC.parse(reply) for each in (clean, trial) for reply in each.ear.replies[:1] if reply is not None]
    assert moves[0] != moves[1]
    stopped = kind in ("early_finish", "no_tool")
    assert settled(trial) == [("decide:c1", f"decision.{kind}", True, False, not stopped)]
    assert answers == [2, MADE_UP if stopped else 2]


def test_a_fault_of_a_call_is_due_once_a_call_runs_that_its_tool_takes() -> None:
    trial = bench.Bench(bench.chain(1), profile("tool.raises"))
    run_sync(trial.model.complete(trial.request()))
    for call in (ToolCall("add", {"a": 1}), ToolCall("nothing", {})):
        run_sync(trial.toolbox.call(call))
        assert settled(trial) == []
    run_sync(trial.toolbox.call(trial.calls["c1"]))
    assert settled(trial) == [("tool:c1", "tool.raises", True, False, False)]


@pytest.mark.parametrize("kind", sorted(OF_CALLS - {"inject.call", "inject.answer", "inject.stop", "calls.late"}))
def test_a_fault_of_a_call_is_the_same_whoever_makes_it_and_from_where(kind: str) -> None:
    struck = []
    for scope in ("", "a scope of its own"):
        trial = bench.Bench(bench.chain(1), profile(kind, attempts=3), seed=5)
        run_sync(trial.model.complete(replace(trial.request(), scope=scope)))
        seen = [run_sync(trial.toolbox.call(trial.calls["c1"])) for _ in range(6)]
        struck.append([(fault, each.status) for each, (_, _, fault) in zip(seen, trial.ear.tool_calls, strict=True)])
    assert struck[0] == struck[1]
    assert struck[0][0][0] == kind


WIRE_KINDS = sorted(kind for kind in FAULT_KINDS if kind.startswith("wire."))
CODECS: list[Codec] = [
    *FORMATS.values(), NATIVE, FinishCodec(Output.of(None)), XmlCodec(Output.of(None)), ForeignCodec(Request(())),
    UNDERSTAND, PLAN, SELECT, REFLECT, REASON, ANSWER, answer_codec({}),
    react_codec("Go.", extract=True), react_codec("Go.", extract=False),
    extract_codec("Go.", "null"), DecideCodec(AgentReasonerSignature), ProseCodec(FormatResponse, "formatter"),
    RecoverCodec(ErrorRecoverySignature),
]  # fmt: skip
CALLING = Act("Next: find it.", (ToolCall("find", {"place": "the old harbour", "seats": 2}),))


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


@settings(deadline=None, max_examples=cases(75))
@given(codec=st.sampled_from(CODECS), kind=st.sampled_from(WIRE_KINDS), seed=st.integers(0, 2**32))
def test_what_is_absorbed_reads_the_same(codec: Codec, kind: str, seed: int) -> None:
    move = said(codec, seed)
    if move is None:
        return
    clean = codec.render(move)
    spoiled, absorbed = spoiled_reply(kind, codec, move, clean)
    assert absorbed == (spoiled != clean and decision(reads(codec, spoiled)) == decision(move))


@pytest.mark.parametrize("kind", WIRE_KINDS)
@pytest.mark.parametrize(
    "move",
    [CALLING, *(Answer(thought, value) for thought in ("", "All results are in.") for value in ('["DTWG-230", "PNCV-245"]', "42")),
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


@pytest.mark.parametrize("kind", WIRE_KINDS)
def test_free_text_is_no_format(kind: str) -> None:
    spared = kind != "wire.empty"
    for codec in (NATIVE, FORMATS["native"], ANSWER, ForeignCodec(Request(()))):
        assert spares(kind, Answer("", "42"), codec.render(Answer("", "42"))) is spared
    assert spares(kind, None, Reply("I cannot say this.")) is spared
    for codec in (CODEC, FORMATS["fields"]):
        assert not spares(kind, Answer("", "42"), codec.render(Answer("", "42")))
    assert not spares(kind, CALLING, CODEC.render(CALLING))
    assert not spares(kind, CALLING, FORMATS["native"].render(CALLING))
