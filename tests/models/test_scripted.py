"""The scripted model end to end, through a minimal loop: laws over any plan, abilities, forgetting, time and patience."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.profiles import FAULT_KINDS, Abilities, Profile, built_in_profiles
from whichloop.models.scripted import Scripted
from whichloop.protocol import ContextOverflow, Plan, ProviderError, Ref, Tool, render_value, run_sync
from whichloop.protocol.chat import reply_of_pieces
from whichloop.protocol.moves import Codec, Role
from whichloop.protocol.receipts import HALFWAY

from . import bench
from .bench import OneCall, profile, run, settled

LAW = settings(max_examples=cases(15), deadline=None)
CODECS: dict[str, Codec | None] = {"native": None, "one native call": OneCall(), "bare": CODEC}
each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
EVERYTHING = Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 1 / len(FAULT_KINDS)), forget=0.5, latency_s=0.1)
PROFILES: dict[str, Profile | str] = {name: name for name in built_in_profiles()} | {"everything": EVERYTHING}


# --- laws over any plan ---


@each_codec
@LAW
@given(plan=bench.plans())
def test_under_clean_every_plan_ends_right_in_as_few_calls_as_it_takes(codec: Codec | None, plan: Plan) -> None:
    trial = bench.Bench(plan)
    assert render_value(run_sync(trial.run(codec=codec))) == trial.expected
    assert len(trial.ear.exchanges) == 1 + (bench.depth(plan) if codec is None else len(plan.calls))
    assert len(trial.ear.tool_calls) == len(plan.calls)
    assert (trial.tunnel.unknown, trial.tunnel.faults, trial.tunnel.simulated_s) == ((), [], 0)


@each_codec
@LAW
@given(plan=bench.plans(), name=st.sampled_from(sorted(PROFILES)), seed=st.integers(0, 10**6))
def test_any_trial_ends_comes_again_and_deviates_from_clean_at_a_drawn_fault_first(
    codec: Codec | None, plan: Plan, name: str, seed: int
) -> None:
    clean, trial, again = bench.Bench(plan), *(bench.Bench(plan, PROFILES[name], seed=seed, repeat=3) for _ in range(2))
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
    assert run_sync(again.run(25, codec=codec)) == answer
    assert (again.ear.replies, settled(again)) == (trial.ear.replies, settled(trial))
    assert again.tunnel.simulated_s == trial.tunnel.simulated_s


@LAW
@given(plan=bench.plans(), seed=st.integers(0, 10**6))
def test_draws_do_not_depend_on_loop_or_scope(plan: Plan, seed: int) -> None:
    drawn = []
    for codec, scope in zip(CODECS.values(), ("", "x", "y"), strict=True):
        trial = bench.Bench(plan, EVERYTHING, seed=seed)
        run_sync(trial.run(codec=codec, scope=scope))
        faults = [fault for fault in trial.tunnel.faults if fault.kind in FAULT_KINDS]
        drawn.append({str(fault.point): (fault.kind, fault.clearing, fault.attempts) for fault in faults})
    for one in drawn:
        for other in drawn:
            assert {point: one[point] for point in one.keys() & other} == {point: other[point] for point in one.keys() & other}


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


# --- forgetting, patience, bluffs ---


def test_forgetting_grows_with_the_distance_from_the_end_of_the_prompt() -> None:
    """A result near the end, at half of the chance and far back, 300 trials each; what stands before it does not count."""
    trial = bench.Bench(bench.chain(1), Profile(name="f", forget=0.8))
    result = trial.results()["c1"]
    for share in (0.1, 0.5, 0.9):
        request = trial.request("." * 30_000 + result + "." * int(HALFWAY * share / (1 - share)))
        models = [Scripted(replace(trial.scripted.script, repeat=repeat), trial.tunnel) for repeat in range(300)]
        forgot = sum(bool(run_sync(model.complete(request)).calls) for model in models)
        assert forgot / 300 == pytest.approx(0.8 * share, abs=0.08)


def test_what_was_forgotten_is_a_fault_that_lands_and_is_overcome() -> None:
    for repeat in range(40):
        trial = bench.Bench(bench.chain(2), Profile(name="f", forget=0.9), repeat=repeat)
        assert run(trial, limit=60) == 12
        assert {tuple(what) for _, *what in settled(trial)} <= {("decision.forget", True, False, True)}


@pytest.mark.parametrize("bluff", [0, 0.3, 1])
def test_a_model_bluffs_as_often_as_its_profile_says(bluff: float) -> None:
    """Asked for the answer of a chain of which it knows nothing; 100 trials, and each sticks to what it does."""
    trial, bluffed = bench.Bench(bench.chain(2), Profile(name="b", bluff=bluff)), 0
    for repeat in range(100):
        model = Scripted(replace(trial.scripted.script, repeat=repeat))
        one, other = (run_sync(model.complete(trial.request(role=Role.ANSWER))).text for _ in range(2))
        assert one == other
        bluffed += one != NOT_DETERMINED
    assert bluffed / 100 == pytest.approx(bluff, abs=0.14)


# --- time, streams ---


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


def quick(limit_s: float) -> tuple[Tool, ...]:
    return (Tool.from_function(bench.TOOLS[0].function, name="add", blocking=False, time_limit_s=limit_s),)


@pytest.mark.parametrize(("tools", "limit"), [(bench.TOOLS, 30), (quick(7), 7)])
def test_a_hang_is_the_time_limit_s_error_at_once(tools: Any, limit: float) -> None:
    trial = bench.Bench(bench.chain(1), profile("tool.hangs"), tools=tools)
    assert run(trial) == 2
    first = trial.ear.tool_calls[0][1]
    assert (first.error_type, first.data) == ("TimeoutError", f"no result within {limit} s")
    assert trial.tunnel.simulated_s == limit


@pytest.mark.parametrize("kind", ["tool.slow", "tool.hangs", "provider.slow"])
def test_in_real_time_delays_are_slept(kind: str) -> None:
    trial = bench.Bench(bench.chain(1), profile(kind, slow_s=0.05), tools=quick(0.05), real_time=True)
    started = time.monotonic()
    assert run(trial) == 2
    assert time.monotonic() - started >= 0.05
    assert trial.tunnel.simulated_s == 0


@each_codec
def test_a_stream_gives_the_same_reply(codec: Codec | None) -> None:
    plan = Plan((bench.planned("c1", "add", a=10**30, b=1), bench.planned("c2", "concat", a="x" * 40, b="")), Ref("c1"))
    one, other = bench.Bench(plan), bench.Bench(plan)

    async def streamed() -> list[Any]:
        return [chunk async for chunk in other.scripted.stream(other.request(codec=codec))]

    whole = run_sync(one.scripted.complete(one.request(codec=codec)))
    *chunks, last = run_sync(streamed())
    made = reply_of_pieces("".join(chunk.text for chunk in chunks), [chunk.call for chunk in chunks if chunk.call])
    assert (made.text, made.calls, last.reply) == (whole.text, whole.calls, whole)
