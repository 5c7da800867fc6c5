"""A recording of the scripted model does to a trial what the model did: any loop, any faults, several scopes at once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.datasets.arithmetic import load
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import replay
from whichloop.metrics.record import FaultRecord
from whichloop.metrics.trace import ModelExchange
from whichloop.models.cassette import Cassette, CassetteMode, Lane, Recording
from whichloop.models.metering import Meter, MeteredModel, MeteredToolbox
from whichloop.models.profiles import FAULT_KINDS, Abilities, Clears, Profile, load_profile
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.models.scripted import Script, Scripted
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Chunk, Message, Model, Reply, Request, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.protocol.receipts import MARK
from whichloop.runs.registry import make_loop
from whichloop.runs.trial.recorder import NoteTaker, Recorder

from . import bench

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "provider-trouble", "stubborn")


async def one_trial(loop: str, task: Task, suite: Suite, profile: Profile, cassette: Cassette | None) -> dict[str, Any]:
    """All that a record and a trace say of a trial, times aside; a cassette that replays has nobody to ask."""
    planned = await replay(task, suite)
    truth = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in planned}
    environment, recorder, tunnel = suite.open(task), Recorder(), Tunnel(slow_s=profile.slow_s)
    tools = MeteredToolbox(environment.tools, recorder, tunnel)
    recorder.tools = {tool.name: tool for tool in tools}
    assert task.plan is not None
    tunnel.unknown = tuple(call.id for call in task.plan.calls)
    model: Any = None
    if cassette is None or cassette.mode is not CassetteMode.REPLAY:
        specs = {tool.name: tool.spec for tool in tools}
        model = Scripted(Script(task.plan, truth, profile, 0, task.id, 0, specs, task.query.text), tunnel)
    if cassette is not None:
        model = cassette.model(f"scripted/{profile.name}", Lane(loop, task.id, 0), model, tunnel)
    metered = MeteredModel(model, Meter(), recorder, tunnel)
    outcome = await make_loop(parse_spec(loop), 8).run(task.query, tools, metered, NoteTaker(recorder.note))
    tunnel.settle(truth)
    environment.close()
    untimed = [replace(event, seconds=0.0) if isinstance(event, ModelExchange) else event for event in recorder.events]
    return {
        "outcome": (outcome.answer, outcome.stop, outcome.steps, outcome.confidence),
        "trace": (recorder.fields()["trace_digest"], untimed),
        "counts": (recorder.steps, recorder.calls, recorder.tool_calls, recorder.usage, recorder.errors),
        "faults": [
            FaultRecord(fault.kind, str(fault.point), fault.landed, fault.absorbed, fault.recovered) for fault in tunnel.faults
        ],
        "unknown": tunnel.unknown,
        "shown": tunnel.ever_shown,
        "simulated_s": tunnel.simulated_s,
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [name if name == "flaky-tools" else pytest.param(name, marks=pytest.mark.slow) for name in PROFILES]
)
def test_every_loop_replays_to_the_same_record_and_trace(tmp_path: Path, name: str) -> None:
    """Unrecorded, recorded and replayed; all loops in one recording, all trials at once."""
    suite, profile = load(), load_profile(name)
    cells = [(loop, task) for loop in LOOPS for task in suite.tasks[:: len(suite.tasks) // 3]]

    async def run(cassette: Cassette | None) -> list[dict[str, Any]]:
        return await asyncio.gather(*(one_trial(loop, task, suite, profile, cassette) for loop, task in cells))

    plain = run_sync(run(None))
    cassette = Cassette.open(tmp_path, CassetteMode.RECORD)
    recorded = run_sync(run(cassette))
    cassette.close(True)
    again = Cassette.open(tmp_path, CassetteMode.REPLAY)
    replayed = run_sync(run(again))
    assert (again.hits, again.misses) == (cassette.recorded, 0)
    for cell, one, two, three in zip(cells, plain, recorded, replayed, strict=True):
        assert one == two == three, cell
    assert sum(len(one["faults"]) for one in plain) > 0 or name == "clean"


def test_a_recording_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """A trial that was cut off begins anew: the model must not stumble again where its recorded replies have already."""
    suite = load(size=1)
    profile = Profile(name="p", rates={"wire.empty": 1}, clears=Clears(feedback=0, after=1, never=0))

    def run(mode: CassetteMode | None) -> dict[str, Any]:
        cassette = None if mode is None else Cassette.open(tmp_path, mode)
        result = run_sync(one_trial("bare", suite.tasks[0], suite, profile, cassette))
        if cassette is not None:
            cassette.close(True)
        return result

    plain = run(None)
    assert run(CassetteMode.RECORD) == plain
    path = tmp_path / "scripted-p.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    asked = [number for number, line in enumerate(lines, 1) if b'"request"' in line]
    path.write_bytes(b"".join(lines[: asked[0]]))
    reseal(path)
    assert run(CassetteMode.REPLAY_OR_RECORD) == plain
    assert path.read_bytes() == whole


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Many faults, of all kinds."""
    kinds = draw(st.lists(st.sampled_from(sorted(FAULT_KINDS)), min_size=1, max_size=4, unique=True))
    clears = draw(st.sampled_from((Clears(), Clears(feedback=0, after=1, never=0), Clears(feedback=0, after=0, never=1))))
    abilities = Abilities(context_tokens=draw(st.sampled_from((None, None, 400))))
    forget = draw(st.sampled_from((0.0, 0.8)))
    return Profile(
        name="p",
        rates={kind: 0.9 / len(kinds) for kind in kinds},
        clears=clears,
        forget=forget,
        abilities=abilities,
        latency_s=0.5,
    )


@settings(max_examples=cases(15))
@given(data=st.data(), profile=profiles(), scopes=st.sampled_from((("",), ("", "a"), ("a", "b", "c"))))
def test_any_faults_in_any_scopes_replay_to_the_same_state(data: st.DataObject, profile: Profile, scopes: Any) -> None:
    plan = data.draw(bench.plans())
    feedback, whole = data.draw(st.booleans()), data.draw(st.booleans())

    def run(cassette: Cassette | None) -> Any:
        trial = bench.Bench(plan, profile)
        inner: Model = trial.scripted
        if cassette is not None:
            asked = None if cassette.mode is CassetteMode.REPLAY else inner
            inner = cassette.model("m", Lane("a", "t", 0), asked, trial.tunnel)
        trial.model = MeteredModel(inner, trial.meter, trial.ear, trial.tunnel)

        async def go() -> list[Any]:
            pause = lambda: asyncio.sleep(0)  # noqa: E731
            return await asyncio.gather(*(trial.run(8, scope=scope, feedback=feedback, pause=pause) for scope in scopes))

        answers = run_sync(go())
        tunnel = trial.tunnel
        heard = [(request, reply, str(error), fault) for request, reply, error, fault in trial.ear.exchanges]
        before = (tunnel.unknown, tunnel.simulated_s, len(tunnel.ledger.issued))
        tunnel.settle(trial.oracle)
        return answers, heard, trial.ear.tool_calls, before, tunnel.faults

    with tempfile.TemporaryDirectory() as folder:
        plain = run(None)
        cassette = Cassette.open(Path(folder), CassetteMode.RECORD)
        recorded = run(cassette)
        cassette.close(whole)
        assert recorded == plain
        assert run(Cassette.open(Path(folder), CassetteMode.REPLAY)) == plain


def test_a_fault_that_lands_again_lands_later_in_a_replay_too() -> None:
    """What was issued between the two is no recovery of the second."""
    one, two = Tunnel(), Tunnel()
    one.keeps_effects = True
    from_request = Request((Message("user", "?"),))
    trial = bench.Bench(
        bench.chain(1), Profile(name="p", rates={"decision.wrong_value": 1}, clears=Clears(feedback=0, after=0, never=1))
    )
    truth = trial.oracle["c1"]
    scripted = Scripted(trial.scripted.script, one)

    async def go() -> None:
        for _ in range(2):
            await scripted.complete(trial.request())
            effects = one.effects("")
            assert effects is not None
            await two.repeat(from_request, effects)
            for tunnel in (one, two):
                tunnel.ledger.sign(truth.call, truth.content if not tunnel.ledger.issued else "0000", 2, True)

    run_sync(go())
    assert [fault.landed_at for fault in one.faults] == [fault.landed_at for fault in two.faults] == [1]


def test_receipts_without_their_values_are_told_in_a_replay_too() -> None:
    trial, again = bench.Bench(bench.chain(2)), Tunnel()
    trial.tunnel.keeps_effects = True
    emptied = " ".join(found[0] for found in MARK.finditer(trial.results("c1")["c1"]))
    request = trial.request(emptied)
    run_sync(trial.scripted.complete(request))
    effects = trial.tunnel.effects("")
    assert effects is not None
    run_sync(again.repeat(request, effects))
    assert again.illegible(request) == trial.tunnel.illegible(request) == (trial.tunnel.ledger.issued[0].key,)
    assert again.illegible(request) == ()


def test_a_reply_that_nobody_asked_about_is_not_taken_for_a_later_one() -> None:
    trial = bench.Bench(bench.chain(1))
    trial.tunnel.keeps_effects = True
    run_sync(trial.scripted.complete(trial.request()))
    assert trial.tunnel.effects("") is not None
    trial.tunnel.note_request("")
    assert trial.tunnel.effects("") is None


def test_a_stream_that_is_closed_keeps_its_own_effects(tmp_path: Path) -> None:
    """Even where it is closed after the scope's next request."""
    profile = Profile(name="p", rates={"provider.slow": 1}, slow_s=7)
    trial = bench.Bench(bench.chain(2), profile)
    cassette = Cassette.open(tmp_path, CassetteMode.RECORD)
    model = cassette.model("m", Lane("a", "t", 0), trial.scripted, trial.tunnel)

    async def go() -> None:
        async with aclosing(_stream(model, trial.request())) as chunks:
            await anext(chunks)
            await model.complete(trial.request("more"))

    run_sync(go())
    cassette.close(True)
    first, second = sorted(Recording(tmp_path, "m"), key=lambda exchange: exchange.request.call)
    assert first.cut
    assert not second.cut
    assert first.effects is not None
    assert second.effects is not None
    assert (first.effects.seconds, second.effects.seconds) == (7, 0)
    assert isinstance(first.answer, Reply)


def _stream(model: Any, request: Request) -> AsyncGenerator[Chunk, None]:
    stream: AsyncGenerator[Chunk, None] = model.stream(request)
    return stream


def test_latency_counts_in_virtual_time_only(tmp_path: Path) -> None:
    profile = Profile(name="p", latency_s=3)
    trial = bench.Bench(bench.chain(1), profile)
    cassette = Cassette.open(tmp_path, CassetteMode.RECORD)
    run_sync(cassette.model("m", Lane("a", "t", 0), trial.scripted, trial.tunnel).complete(trial.request()))
    cassette.close(True)
    again = bench.Bench(bench.chain(1), profile)
    model = Cassette.open(tmp_path, CassetteMode.REPLAY).model("m", Lane("a", "t", 0), None, again.tunnel)
    run_sync(model.complete(again.request()))
    assert (again.tunnel.simulated_s, model.replayed_s) == (3, 0)
