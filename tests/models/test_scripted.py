"""The scripted model end to end, through a minimal loop: laws over any plan, abilities, forgetting, time and patience."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.profiles import FAULT_KINDS, Abilities, Clears, Profile, built_in_profiles
from whichloop.models.scripted import Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import (
    Act,
    Answer,
    ContextOverflow,
    Message,
    Plan,
    ProviderError,
    Ref,
    Request,
    Role,
    render_value,
    run_sync,
)
from whichloop.protocol.chat import reply_of_pieces
from whichloop.protocol.moves import Codec
from whichloop.protocol.receipts import HALFWAY

from . import bench
from .bench import OneCall, profile, run, settled

LAW = settings(max_examples=cases(15), deadline=None)
CODECS: dict[str, Codec | None] = {"native": None, "one native call": OneCall(), "bare": CODEC}
each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
EVERYTHING = Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 1 / len(FAULT_KINDS)), forget=0.5, latency_s=0.1)
PROFILES: dict[str, Profile | str] = {name: name for name in built_in_profiles()} | {"everything": EVERYTHING}


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
def test_any_trial_ends_comes_again_and_deviates_from_clean_at_a_drawn_fault_first(codec, plan, name, seed):
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


def test_forgetting_grows_with_the_distance_from_the_end_of_the_prompt() -> None:
    """A result near the end, at half of the chance and far back, 80 trials each; what stands before it does not count."""
    trial = bench.Bench(bench.chain(1), Profile(name="f", forget=0.8))
    result = trial.results()["c1"]
    for share in (0.1, 0.5, 0.9):
        request = trial.request("." * 30_000 + result + "." * int(HALFWAY * share / (1 - share)))
        models = [Scripted(replace(trial.scripted.script, repeat=repeat), trial.tunnel) for repeat in range(80)]
        forgot = sum(bool(run_sync(model.complete(request)).calls) for model in models)
        assert forgot / 80 == pytest.approx(0.8 * share, abs=0.17)


def test_what_was_forgotten_is_a_fault_that_lands_and_is_overcome() -> None:
    for repeat in range(12):
        trial = bench.Bench(bench.chain(2), Profile(name="f", forget=0.9), repeat=repeat)
        assert run(trial, limit=60) == 12
        assert {tuple(what) for _, *what in settled(trial)} <= {("decision.forget", True, False, True)}


@pytest.mark.parametrize("bluff", [0, 0.3, 1])
def test_a_model_bluffs_as_often_as_its_profile_says(bluff: float) -> None:
    """Asked for the answer of a chain of which it knows nothing; 60 trials, and each sticks to what it does."""
    trial, bluffed = bench.Bench(bench.chain(2), Profile(name="b", bluff=bluff)), 0
    for repeat in range(60):
        model = Scripted(replace(trial.scripted.script, repeat=repeat))
        one, other = (run_sync(model.complete(trial.request(role=Role.ANSWER))).text for _ in range(2))
        assert one == other
        bluffed += one != NOT_DETERMINED
    assert bluffed / 60 == pytest.approx(bluff, abs=0.18)


def test_simulated_time_is_counted_and_not_slept() -> None:
    slow = bench.Bench(bench.chain(2), profile("tool.slow", slow_s=1000, latency_s=100))
    assert run(slow) == 12
    assert slow.tunnel.simulated_s == 2 * 1000 + 3 * 100
    late = bench.Bench(bench.chain(1), profile("provider.slow", slow_s=1000))
    assert run(late) == 2
    assert late.tunnel.simulated_s == 2 * 1000
    assert settled(late) == [(f"decide:{point}", "provider.slow", True, False, True) for point in ("answer", "c1")]


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


def wide(count: int) -> Plan:
    """Calls that can all be made at once."""
    calls = tuple(bench.planned(f"c{index}", "add", a=index, b=0) for index in range(1, count + 1))
    return Plan(calls, Ref(f"c{count}"))


@settings(max_examples=cases(15), deadline=None)
@given(seed=st.integers(0, 2**32), raises=st.sampled_from([0.4, 1.0]))
def test_the_tools_faults_strike_all_calls_of_a_move_as_they_strike_them_one_by_one(seed: int, raises: float) -> None:
    """No tool escapes its fault because the first call of the move met another."""
    rates = {"tool.raises": raises} | ({"tool.huge": 0.2, "provider.slow": 0.2, "decision.wrong_type": 0.2} if raises < 1 else {})
    blowing = Profile(name="one", rates=rates, clears=Clears(never=0, attempts=1))
    at_once, one_by_one = (bench.Bench(wide(5), blowing, seed=seed) for _ in range(2))
    assert run_sync(at_once.run()) == run_sync(one_by_one.run(codec=OneCall())) == "5"
    first, second = ([item for item in settled(trial) if item[1].startswith("tool.")] for trial in (at_once, one_by_one))
    assert first == second
    if raises == 1:
        assert first == [(f"tool:c{index}", "tool.raises", True, False, True) for index in range(1, 6)]
        assert [call.arguments["a"] for call, seen, _ in at_once.ear.tool_calls if not seen.ok] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("clears", "expected"), [({"attempts": 1}, [False, True, True, True]), ({"never": 1}, [False] * 4)])
def test_an_outage_clears_by_attempts(clears: dict[str, Any], expected: list[bool]) -> None:
    trial = bench.Bench(bench.chain(1), profile("tool.raises", **clears))
    move: Any = NATIVE.parse(run_sync(trial.model.complete(trial.request())))
    assert [run_sync(trial.toolbox.call(move.calls[0])).ok for _ in range(4)] == expected


@pytest.mark.parametrize("role", list(Role))
def test_what_a_role_overlooks_and_how_it_is_answered_without_a_codec_of_its_own(role: Role) -> None:
    trial = bench.Bench(bench.chain(3), profile(forget=1))
    shown = trial.results().values()
    for attempt in range(6):
        run_sync(trial.model.complete(trial.request(*shown, "x" * 9 * HALFWAY, "again " * attempt, role=role)))
    overlooked = any(fault.kind == "decision.forget" for fault in trial.tunnel.faults)
    assert overlooked is (role in (Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT))
    plain = bench.Bench(bench.chain(2))
    reply = run_sync(plain.model.complete(plain.request(f"Find c2. {plain.results('c1')['c1']}", role=role)))
    assert bool(reply.calls) == (role in (Role.DECIDE, Role.SELECT))
    assert reply.text or reply.calls
    assert isinstance(NATIVE.parse(reply), Act | Answer)
    assert reply.usage is not None
    assert (reply.usage.estimated, reply.usage.cost_usd) == (True, None)
    assert reply.usage.input_tokens > 50


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("How many apples are there in all?", True),
        ('{"question": "How many\\napples are THERE, in all?"}', True),
        ("There are many apples.", True),
        ("(hidden)", False),
    ],
)
def test_a_model_that_is_not_shown_the_question_is_at_a_loss(text: str, known: bool) -> None:
    script = replace(bench.Bench(bench.chain(1)).scripted.script, question="How many apples are there in all?")
    request = Request((Message("user", f"{text} Tools: {', '.join(script.tools)}"),), codec=CODEC)
    assert isinstance(CODEC.parse(run_sync(Scripted(script).complete(request))), Act) is known
