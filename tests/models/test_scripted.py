"""The scripted model end to end, through a minimal loop: laws over any plan, abilities, forgetting, time and patience."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.prepared import ran_in_fork
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.profiles import FAULT_KINDS, Abilities, Profile, built_in_profiles
from whichloop.models.scripted import Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import (
    Act,
    Codec,
    ContextOverflow,
    Message,
    NativeCall,
    Plan,
    ProviderError,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    render_value,
    run_sync,
)
from whichloop.protocol.receipts import HALFWAY

from . import bench
from .scripted_trials import OneCall, profile, run, settled

LAW = settings(max_examples=cases(15), deadline=None)
CODECS: dict[str, Codec | None] = {"native": None, "one native call": OneCall(), "bare": CODEC}


# --- laws over any plan ---


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
@LAW
@given(data=st.data())
def test_under_clean_every_plan_ends_right_in_as_few_calls_as_it_takes(codec: Codec | None, data: st.DataObject) -> None:
    plan = data.draw(bench.plans())
    trial = bench.Bench(plan)
    assert render_value(run_sync(trial.run(codec=codec))) == trial.expected
    assert len(trial.ear.exchanges) == 1 + (bench.depth(plan) if codec is None else len(plan.calls))
    assert len(trial.ear.tool_calls) == len(plan.calls)
    assert trial.tunnel.unknown == ()
    assert trial.tunnel.faults == []
    assert trial.tunnel.simulated_s == 0


PROFILES = {name: name for name in built_in_profiles()} | {
    "everything": Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 1 / len(FAULT_KINDS)), forget=0.5, latency_s=0.1),
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
@LAW
@given(data=st.data(), name=st.sampled_from(sorted(PROFILES)), seed=st.integers(0, 10**6))
def test_any_trial_ends_and_deviates_from_clean_at_a_drawn_fault_first(
    codec: Codec | None, data: st.DataObject, name: str, seed: int
) -> None:
    plan = data.draw(bench.plans())
    clean, trial = bench.Bench(plan), bench.Bench(plan, PROFILES[name], seed=seed)
    scheduled: dict[int, int] = {}

    async def pause() -> None:
        scheduled[len(trial.ear.exchanges)] = len(trial.tunnel.faults)

    run_sync(clean.run(codec=codec))
    answer = run_sync(trial.run(25, codec=codec, pause=pause))
    assert len(trial.ear.exchanges) <= 25
    undisturbed = max(0, *(made for made, faults in scheduled.items() if faults == 0))
    assert trial.ear.replies[:undisturbed] == clean.ear.replies[:undisturbed]
    if not trial.tunnel.faults:
        assert render_value(answer) == trial.expected
        assert trial.ear.replies == clean.ear.replies
    for _, kind, landed, absorbed, recovered in settled(trial):
        assert landed or not (absorbed or recovered)
        assert kind.startswith("wire.") or not absorbed


@LAW
@given(data=st.data(), name=st.sampled_from(sorted(PROFILES)), seed=st.integers(0, 10**6))
def test_the_same_trial_gives_the_same_bytes(data: st.DataObject, name: str, seed: int) -> None:
    plan, codec = data.draw(bench.plans()), data.draw(st.sampled_from(list(CODECS.values())))
    one, other = (bench.Bench(plan, PROFILES[name], seed=seed, repeat=3) for _ in range(2))
    assert run_sync(one.run(codec=codec)) == run_sync(other.run(codec=codec))
    assert one.ear.replies == other.ear.replies
    assert settled(one) == settled(other)
    assert one.tunnel.simulated_s == other.tunnel.simulated_s


@LAW
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_draws_do_not_depend_on_loop_or_scope(data: st.DataObject, seed: int) -> None:
    plan = data.draw(bench.plans())
    trials = [bench.Bench(plan, PROFILES["everything"], seed=seed) for _ in range(3)]
    for trial, codec, scope in zip(trials, CODECS.values(), ("", "x", "y"), strict=True):
        run_sync(trial.run(codec=codec, scope=scope))
    drawn = [{str(f.point): (f.kind, f.clearing, f.attempts) for f in w.tunnel.faults if f.kind in FAULT_KINDS} for w in trials]
    for one in drawn:
        for other in drawn:
            shared = one.keys() & other.keys()
            assert {point: one[point] for point in shared} == {point: other[point] for point in shared}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_loop_that_cuts_receipts_away_never_gets_an_answer(codec: Codec | None) -> None:
    """It makes the first call over and over, as a model would that has forgotten."""
    trial = bench.Bench(bench.chain(3))

    async def run() -> None:
        messages = [Message("user", bench.QUESTION)]
        for _ in range(8):
            reply = await trial.model.complete(Request(tuple(messages), trial.toolbox.specs, codec=codec))
            move = (codec or NATIVE).parse(reply)
            assert isinstance(move, Act)
            seen = await trial.toolbox.call(move.calls[0])
            messages.append(Message("user", f"The result: {seen.data[:5]}"))

    run_sync(run())
    assert [call.arguments for call, _, _ in trial.ear.tool_calls] == [{"a": 1, "b": 1}] * 8
    assert trial.tunnel.unknown == ("c1", "c2", "c3")


_TRIALS = """
import asyncio, hashlib, runpy, sys
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.profiles import FAULT_KINDS, Profile

shared = runpy.run_path(sys.argv[1])
profile = Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 1 / len(FAULT_KINDS)), forget=0.5)
trials = [shared["Bench"](shared["chain"](4), profile, repeat=repeat) for repeat in range(30)]

async def main():
    return [await trial.run(25, codec=codec) for trial, codec in zip(trials, [None, CODEC] * 15)]

answers = asyncio.run(main())
said = repr([answers, [(trial.ear.replies, trial.tunnel.faults) for trial in trials]])
print(len(said), sum(bool(trial.tunnel.faults) for trial in trials), hashlib.sha256(said.encode()).hexdigest())
"""


def test_a_fresh_process_gives_the_same_bytes_whatever_the_hash_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As this process, whose hash seed is another one: that of the fork was drawn."""
    there = ran_in_fork(_TRIALS, tmp_path, bench.__file__).stdout
    monkeypatch.setattr(sys, "argv", ["-c", bench.__file__])
    exec(_TRIALS, {})
    here = capsys.readouterr().out
    assert int(here.split()[1]) > 15
    assert here == there


# --- capabilities are no coin flips ---


def test_a_context_that_overflows_is_not_cured_by_asking_again() -> None:
    trial = bench.Bench(bench.chain(1), profile(abilities=Abilities(context_tokens=300)))
    assert trial.model.capabilities.context_tokens == 300
    for _ in range(5):
        with pytest.raises(ContextOverflow):
            run_sync(trial.model.complete(trial.request("x" * 2000)))
    assert run_sync(trial.model.complete(trial.request("x" * 20))).calls
    assert trial.tunnel.faults == []


@pytest.mark.parametrize("choice", ["required", "add"])
def test_a_model_without_tool_choice_refuses_it_each_time(choice: str) -> None:
    trial = bench.Bench(bench.chain(1), profile(abilities=Abilities(tool_choice=False)))
    assert not trial.model.capabilities.tool_choice
    for _ in range(5):
        with pytest.raises(ProviderError) as raised:
            run_sync(trial.model.complete(trial.request(tool_choice=choice)))
        assert (raised.value.kind, raised.value.injected) == ("refused", True)
    for allowed in (None, "auto", "none"):
        assert run_sync(trial.model.complete(trial.request(tool_choice=allowed))).calls
    assert run_sync(bench.Bench(bench.chain(1)).model.complete(trial.request(tool_choice=choice))).calls


# --- forgetting ---


def test_forgetting_grows_with_the_distance_from_the_end_of_the_prompt() -> None:
    """A result near the end, at half of the chance and far back, 300 trials each; what stands before it does not count."""
    trial = bench.Bench(bench.chain(1), Profile(name="f", forget=0.8))
    result = trial.results()["c1"]

    async def again(text: str, repeat: int) -> bool:
        model = Scripted(replace(trial.scripted.script, repeat=repeat), trial.tunnel)
        return bool((await model.complete(trial.request(text))).calls)

    async def rate(share: float) -> float:
        text = "." * 30_000 + result + "." * int(HALFWAY * share / (1 - share))
        return sum([await again(text, repeat) for repeat in range(300)]) / 300

    for share in (0.1, 0.5, 0.9):
        assert run_sync(rate(share)) == pytest.approx(0.8 * share, abs=0.08)


def test_what_was_forgotten_is_a_fault_that_lands_and_is_overcome() -> None:
    for repeat in range(40):
        trial = bench.Bench(bench.chain(2), Profile(name="f", forget=0.9), repeat=repeat)
        answer = run(trial, limit=60)
        faults = settled(trial)
        assert {kind for _, kind, *_ in faults} <= {"decision.forget"}
        assert answer == 12
        assert all(landed and recovered for _, _, landed, _, recovered in faults)


# --- virtual time ---


def test_simulated_time_is_counted_and_not_slept() -> None:
    started = time.monotonic()
    slow = bench.Bench(bench.chain(2), profile("tool.slow", slow_s=1000, latency_s=100))
    assert run(slow) == 12
    assert slow.tunnel.simulated_s == 2 * 1000 + 3 * 100
    late = bench.Bench(bench.chain(1), profile("provider.slow", slow_s=1000))
    assert run(late) == 2
    assert late.tunnel.simulated_s == 2 * 1000
    assert settled(late) == [(f"decide:{point}", "provider.slow", True, False, True) for point in ("answer", "c1")]
    assert time.monotonic() - started < 100


def test_a_hang_is_the_time_limit_s_error_at_once() -> None:
    quick = Tool.from_function(bench.TOOLS[0].function, name="add", blocking=False, time_limit_s=7)
    for tools, limit in ((bench.TOOLS, 30), ((quick,), 7)):
        trial = bench.Bench(bench.chain(1), profile("tool.hangs"), tools=tools)
        assert run(trial) == 2
        first = trial.ear.tool_calls[0][1]
        assert (first.error_type, first.data) == ("TimeoutError", f"no result within {limit} s")
        assert trial.tunnel.simulated_s == limit


@pytest.mark.parametrize("kind", ["tool.slow", "tool.hangs", "provider.slow"])
def test_in_real_time_delays_are_slept(kind: str) -> None:
    quick = Tool.from_function(bench.TOOLS[0].function, name="add", blocking=False, time_limit_s=0.05)
    trial = bench.Bench(bench.chain(1), profile(kind, slow_s=0.05), tools=(quick,), real_time=True)
    started = time.monotonic()
    assert run(trial) == 2
    assert time.monotonic() - started >= 0.05
    assert trial.tunnel.simulated_s == 0


# --- patience, streams, the plan's own failures ---


def test_after_patience_another_way_is_taken() -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=[other]),), Ref("c1"))
    trial = bench.Bench(plan, profile("decision.wrong_value", never=1, patience=2))
    run(trial, limit=6)
    made = [(call.arguments["a"], call.arguments["b"]) for call, _, _ in trial.ear.tool_calls]
    assert made == [(1, 3), (1, 3), (2, 2), (2, 2), (2, 2), (2, 2)]  # the last argument is wrong each time


def test_a_model_bluffs_as_often_as_its_profile_says() -> None:
    """Asked for the answer of a chain of which it knows nothing; 100 trials, and each sticks to what it does."""
    for bluff in (0, 0.3, 1):
        bluffed = 0
        trial = bench.Bench(bench.chain(2), Profile(name="b", bluff=bluff))
        for repeat in range(100):
            model = Scripted(replace(trial.scripted.script, repeat=repeat))
            said = {run_sync(model.complete(trial.request(role=Role.ANSWER))).text for _ in range(2)}
            assert len(said) == 1
            bluffed += said != {NOT_DETERMINED}
        assert bluffed / 100 == pytest.approx(bluff, abs=0.14)


def test_a_stream_gives_the_same_reply() -> None:
    async def streamed(trial: bench.Bench, request: Any) -> tuple[str, list[NativeCall], Reply | None]:
        text, calls, reply = "", list[NativeCall](), None
        async for chunk in trial.scripted.stream(request):
            assert reply is None
            text, reply = text + chunk.text, chunk.reply
            if chunk.call is not None:
                if chunk.call.index == len(calls):
                    calls.append(NativeCall("", "", ""))
                last = calls[chunk.call.index]
                piece = chunk.call
                calls[piece.index] = NativeCall(last.id + piece.id, last.name + piece.name, last.arguments + piece.arguments)
        return text, calls, reply

    plan = Plan((bench.planned("c1", "add", a=10**30, b=1), bench.planned("c2", "concat", a="x" * 40, b="")), Ref("c1"))
    for codec in CODECS.values():
        one, other = bench.Bench(plan), bench.Bench(plan)
        whole = run_sync(one.scripted.complete(one.request(codec=codec)))
        assert run_sync(streamed(other, other.request(codec=codec))) == (whole.text, list(whole.calls), whole)
