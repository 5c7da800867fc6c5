"""The scripted model end to end, through a minimal loop: what it does under clean, under each fault, and when asked again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.loops.bare_codecs import CODEC
from loopbench.models.draws import derived_seed, unit
from loopbench.models.faults import NOT_DETERMINED
from loopbench.models.native import NATIVE, NativeCodec
from loopbench.models.policy import MADE_UP
from loopbench.models.profiles import FAULT_KINDS, Abilities, Clears, Profile, built_in_profiles
from loopbench.models.receipts import HALFWAY
from loopbench.models.scripted import Scripted
from loopbench.protocol import (
    Act,
    Answer,
    Codec,
    ContextOverflow,
    Inexpressible,
    Message,
    NativeCall,
    Plan,
    ProviderError,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    WireError,
    render_value,
    run_sync,
)


class OneCall(NativeCodec):
    """Native calls, one at a time."""

    max_calls = 1


LAW = settings(max_examples=30, deadline=None)
CODECS: dict[str, Codec | None] = {"native": None, "one native call": OneCall(), "bare": CODEC}


def profile(*kinds: str, feedback: float = 0, after: float = 0, never: float = 0, attempts: int = 2, **more: Any) -> Profile:
    """Every point that can be struck is struck; by default the fault clears by feedback."""
    feedback = feedback or 1 - after - never
    clears = Clears(feedback=feedback, after=after, never=never, attempts=attempts)
    return Profile(name="one", rates=dict.fromkeys(kinds, 1 / len(kinds) if kinds else 0), clears=clears, **more)


def points(wind: Any) -> list[str]:
    return [str(fault.point) for fault in wind.tunnel.disturbances]


def settled(wind: Any) -> list[tuple[str, str, bool, bool, bool]]:
    """(point, kind, landed, absorbed, recovered) of each fault."""
    wind.tunnel.settle(wind.oracle)
    return [(str(f.point), f.kind, f.landed, f.absorbed, f.recovered) for f in wind.tunnel.disturbances]


# --- laws over any plan ---


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
@LAW
@given(data=st.data())
def test_under_clean_every_plan_ends_right_in_as_few_calls_as_it_takes(bench, codec: Codec | None, data: st.DataObject) -> None:
    plan = data.draw(bench.plans())
    wind = bench.Bench(plan)
    assert render_value(run_sync(wind.run(codec=codec))) == wind.expected
    assert len(wind.ear.exchanges) == 1 + (bench.depth(plan) if codec is None else len(plan.calls))
    assert len(wind.ear.tool_calls) == len(plan.calls)
    assert wind.tunnel.unknown == ()
    assert wind.tunnel.disturbances == []
    assert wind.tunnel.simulated_s == 0


PROFILES = {name: name for name in built_in_profiles()} | {
    "everything": Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 0.035), forget=0.5, latency_s=0.1),
    "broken-tools": Profile(
        name="broken-tools",
        rates={"tool.raises": 0.4, "tool.flaky": 0.2, "tool.garbage": 0.2},
        clears=Clears(feedback=0.4, after=0.4, never=0.2),
    ),
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
@LAW
@given(data=st.data(), name=st.sampled_from(sorted(PROFILES)), seed=st.integers(0, 10**6))
def test_any_trial_ends_and_deviates_from_clean_at_a_drawn_fault_first(
    bench, codec: Codec | None, data: st.DataObject, name: str, seed: int
) -> None:
    plan = data.draw(bench.plans())
    clean, wind = bench.Bench(plan), bench.Bench(plan, PROFILES[name], seed=seed)
    scheduled: dict[int, int] = {}

    async def pause() -> None:
        scheduled[len(wind.ear.exchanges)] = len(wind.tunnel.disturbances)

    run_sync(clean.run(codec=codec))
    answer = run_sync(wind.run(25, codec=codec, pause=pause))
    assert len(wind.ear.exchanges) <= 25
    undisturbed = max(0, *(made for made, faults in scheduled.items() if faults == 0))
    assert wind.ear.replies[:undisturbed] == clean.ear.replies[:undisturbed]
    if not wind.tunnel.disturbances:
        assert render_value(answer) == wind.expected
        assert wind.ear.replies == clean.ear.replies
    for _, kind, landed, absorbed, recovered in settled(wind):
        assert landed or not (absorbed or recovered)
        assert kind.startswith("wire.") or not absorbed


@LAW
@given(data=st.data(), name=st.sampled_from(sorted(PROFILES)), seed=st.integers(0, 10**6))
def test_the_same_trial_gives_the_same_bytes(bench, data: st.DataObject, name: str, seed: int) -> None:
    plan, codec = data.draw(bench.plans()), data.draw(st.sampled_from(list(CODECS.values())))
    one, other = (bench.Bench(plan, PROFILES[name], seed=seed, repeat=3) for _ in range(2))
    assert run_sync(one.run(codec=codec)) == run_sync(other.run(codec=codec))
    assert one.ear.replies == other.ear.replies
    assert settled(one) == settled(other)
    assert one.tunnel.simulated_s == other.tunnel.simulated_s


@LAW
@given(data=st.data(), name=st.sampled_from(["broken-tools", "broken-tools", "everything"]), seed=st.integers(0, 10**6))
def test_scopes_may_be_answered_in_any_order(bench, data: st.DataObject, name: str, seed: int) -> None:
    """Two runs of one trial, each in its own scope; whoever is ahead, each gets the replies that it gets alone."""
    plan = data.draw(bench.plans(max_calls=3))
    waits = {scope: data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=9)) for scope in ("a", "b")}

    async def both(wind: Any, waits: dict[str, list[int]]) -> list[Any]:
        def pausing(scope: str) -> Any:
            left = cycle(waits[scope])

            async def pause() -> None:
                for _ in range(next(left)):
                    await asyncio.sleep(0)

            return pause

        return list(await asyncio.gather(*(wind.run(25, codec=OneCall(), scope=scope, pause=pausing(scope)) for scope in waits)))

    shuffled, in_turn = (bench.Bench(plan, PROFILES[name], seed=seed) for _ in range(2))
    answers = run_sync(both(shuffled, waits))
    assert answers == run_sync(both(in_turn, {"a": [0], "b": [3]}))
    for scope in ("a", "b"):
        said = [[reply for request, reply, _, _ in wind.ear.exchanges if request.scope == scope] for wind in (shuffled, in_turn)]
        assert said[0] == said[1]
    assert settled(shuffled) == settled(in_turn)


@LAW
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_draws_do_not_depend_on_loop_or_scope(bench, data: st.DataObject, seed: int) -> None:
    plan = data.draw(bench.plans())
    winds = [bench.Bench(plan, PROFILES["everything"], seed=seed) for _ in range(3)]
    for wind, codec, scope in zip(winds, CODECS.values(), ("", "x", "y"), strict=True):
        run_sync(wind.run(codec=codec, scope=scope))
    drawn = [
        {str(f.point): (f.kind, f.clearing, f.attempts) for f in w.tunnel.disturbances if f.kind in FAULT_KINDS} for w in winds
    ]
    for one in drawn:
        for other in drawn:
            shared = one.keys() & other.keys()
            assert {point: one[point] for point in shared} == {point: other[point] for point in shared}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_loop_that_cuts_receipts_away_never_gets_an_answer(bench, codec: Codec | None) -> None:
    """It makes the first call over and over, as a model would that has forgotten."""
    wind = bench.Bench(bench.chain(3))

    async def run() -> None:
        messages = [Message("user", bench.QUESTION)]
        for _ in range(8):
            reply = await wind.model.complete(Request(tuple(messages), wind.toolbox.specs, codec=codec))
            move = (codec or NATIVE).parse(reply)
            assert isinstance(move, Act)
            seen = await wind.toolbox.call(move.calls[0])
            messages.append(Message("user", f"The result: {seen.data[:5]}"))

    run_sync(run())
    assert [call.arguments for call, _, _ in wind.ear.tool_calls] == [{"a": 1, "b": 1}] * 8
    assert wind.tunnel.unknown == ("c1", "c2", "c3")


_PROCESS = """
import asyncio, hashlib, runpy, sys
from loopbench.loops.bare_codecs import CODEC
from loopbench.models.profiles import FAULT_KINDS, Profile

shared = runpy.run_path(sys.argv[1])
profile = Profile(name="everything", rates=dict.fromkeys(FAULT_KINDS, 0.035), forget=0.5)
winds = [shared["Bench"](shared["chain"](4), profile, repeat=repeat) for repeat in range(60)]

async def main():
    return [await wind.run(25, codec=codec) for wind, codec in zip(winds, [None, CODEC] * 30)]

answers = asyncio.run(main())
said = repr([answers, [(wind.ear.replies, wind.tunnel.disturbances) for wind in winds]])
print(len(said), sum(bool(wind.tunnel.disturbances) for wind in winds), hashlib.sha256(said.encode()).hexdigest())
"""


def test_fresh_processes_give_the_same_bytes_whatever_the_hash_seed(bench) -> None:
    command = [sys.executable, "-c", _PROCESS, bench.file]
    started = [subprocess.Popen(command, env={"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True) for seed in ("1", "2")]
    outputs = [process.communicate(timeout=100)[0].split() for process in started]
    assert int(outputs[0][1]) > 30
    assert outputs[0] == outputs[1]


def test_a_draw_depends_on_its_whole_key() -> None:
    assert unit(1, "a") == unit(1, "a")
    assert len({unit(1, "a"), unit(2, "a"), unit(1, "b"), unit("1a"), unit(1, "a", "")}) == 5
    assert 0 <= unit() < 1
    drawn = [unit("x", index) for index in range(2000)]
    assert sum(drawn) / 2000 == pytest.approx(0.5, abs=0.03)
    assert 0 <= derived_seed("x") < 2**32


# --- what clears a fault ---


def run(wind: Any, **how: Any) -> Any:
    return run_sync(wind.run(**{"codec": CODEC} | how))


@pytest.mark.parametrize("kind", ["wire.malformed", "wire.truncated", "decision.unknown_tool", "tool.raises", "tool.garbage"])
def test_feedback_clears_a_fault_at_the_next_attempt(bench, kind: str) -> None:
    wind = bench.Bench(bench.chain(3), profile(kind, feedback=1))
    assert run(wind) == 22
    assert len(wind.tunnel.disturbances) == (4 if kind.startswith("wire.") else 3)
    assert all(landed and recovered for _, _, landed, _, recovered in settled(wind))
    assert len(wind.ear.exchanges) == 4 + len(wind.tunnel.disturbances)


@pytest.mark.parametrize("kind", ["wire.malformed", "tool.raises", "provider.server"])
def test_without_feedback_the_same_is_said_again_word_for_word(bench, kind: str) -> None:
    wind = bench.Bench(bench.chain(3), profile(kind, feedback=1))
    assert run(wind, feedback=False, limit=6) is None
    assert wind.ear.replies == wind.ear.replies[:1] * 6
    assert settled(wind) == [("decide:c1", kind, True, False, False)]


def test_a_failing_provider_is_overcome_by_a_loop_that_tells_the_model(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("provider.server", feedback=1))
    assert run(wind) == 2
    assert settled(wind) == [(f"decide:{point}", "provider.server", True, False, True) for point in ("answer", "c1")]


@pytest.mark.parametrize("kind", ["wire.empty", "decision.wrong_type", "tool.raises", "provider.rate_limit"])
@pytest.mark.parametrize("feedback", [True, False])
def test_a_fault_that_takes_n_attempts_takes_n(bench, kind: str, feedback: bool) -> None:
    wind = bench.Bench(bench.chain(1), profile(kind, after=1, attempts=3))
    assert run(wind, feedback=feedback) == 2
    struck = sum(fault == kind for *_, fault in (*wind.ear.exchanges, *wind.ear.tool_calls))
    assert struck == 3 * len(wind.tunnel.disturbances)


@pytest.mark.parametrize("kind", ["wire.fenced", "decision.unknown_tool", "tool.garbage", "provider.timeout"])
def test_a_fault_that_never_clears_never_clears(bench, kind: str) -> None:
    wind = bench.Bench(bench.chain(2), profile(kind, never=1))
    assert run(wind, limit=15) is None
    assert settled(wind) == [("decide:c1", kind, True, False, False)]


def test_a_flaky_tool_raises_twice_and_then_works(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("tool.flaky", never=1))
    assert run(wind) == 2
    assert [(seen.error_type, fault) for _, seen, fault in wind.ear.tool_calls] == [("ToolUnavailable", "tool.flaky")] * 2 + [
        (None, None)
    ]


# --- each family in the tunnel ---


@pytest.mark.parametrize("kind", sorted(kind for kind in FAULT_KINDS if kind.startswith("wire.")))
def test_a_spoiled_reply_lands_and_is_absorbed_iff_the_format_still_reads_it(bench, kind: str) -> None:
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

    absorbed = kind in ("wire.fenced", "wire.duplicated")
    for codec, reads in ((CODEC, False), (Lenient(), absorbed)):
        wind = bench.Bench(bench.chain(1), profile(kind, feedback=1))
        assert run(wind, codec=codec) == 2
        assert ("decide:c1", kind, True, reads, True) in settled(wind)


@pytest.mark.parametrize(
    "kind", ["unknown_tool", "missing_argument", "extra_argument", "wrong_type", "wrong_value", "early_finish", "no_tool"]
)
def test_a_wrong_decision_lands_as_another_move(bench, kind: str) -> None:
    clean, wind = bench.Bench(bench.chain(1)), bench.Bench(bench.chain(1), profile(f"decision.{kind}", feedback=1))
    answers = [run(clean), run(wind)]
    moves = [CODEC.parse(each.ear.replies[0]) for each in (clean, wind)]
    assert moves[0] != moves[1]
    (fault,) = settled(wind)
    stopped = kind in ("early_finish", "no_tool")
    assert fault == ("decide:c1", f"decision.{kind}", True, False, not stopped)
    assert answers == [2, MADE_UP if stopped else 2]


@pytest.mark.parametrize("bluff", [0.0, 1.0])
def test_an_early_finish_says_what_the_model_would_answer_now(bench, bluff: float) -> None:
    """In the same words whether a loop states its answer at once or asks for it again: a design must not decide who bluffs."""
    wind = bench.Bench(bench.chain(1), profile("decision.early_finish", never=1, bluff=bluff))
    assert run(wind) == (MADE_UP if bluff else NOT_DETERMINED)


@pytest.mark.parametrize(("kind", "point"), [("repeated_call", "c2"), ("never_finish", "answer")])
def test_a_model_that_goes_round_makes_a_call_again(bench, kind: str, point: str) -> None:
    wind = bench.Bench(bench.chain(2), profile(f"decision.{kind}", feedback=1))
    assert run(wind) == 12
    assert settled(wind) == [(f"decide:{point}", f"decision.{kind}", True, False, True)]
    made = [call.arguments["a"] for call, _, _ in wind.ear.tool_calls]
    assert made == ([1, 1, 2] if kind == "repeated_call" else [1, 2, 2])


@pytest.mark.parametrize(("kind", "trouble", "status"), [("rate_limit", "rate_limit", 429), ("server", "server", 500)])
def test_a_provider_s_failure_is_injected(bench, kind: str, trouble: str, status: int) -> None:
    wind = bench.Bench(bench.chain(1), profile(f"provider.{kind}", feedback=1))
    with pytest.raises(ProviderError) as raised:
        run_sync(wind.model.complete(wind.request()))
    assert (raised.value.injected, raised.value.kind, raised.value.status) == (True, trouble, status)


def test_a_lie_lands_and_is_no_recovery(bench) -> None:
    wind = bench.Bench(bench.chain(2), profile("tool.lies", feedback=1))
    answer = run(wind)
    assert isinstance(answer, int)
    assert answer != 12
    assert settled(wind) == [(f"decide:{name}", "tool.lies", True, False, False) for name in ("c1", "c2")]


def test_a_flood_of_text_carries_the_receipt_at_its_end(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("tool.huge", feedback=1))
    assert run(wind) == 2
    assert len(wind.ear.tool_calls[0][1].data) > 8000
    assert settled(wind) == [("decide:c1", "tool.huge", True, False, True)]


def test_a_fault_of_a_tool_that_never_runs_is_scheduled_and_does_not_land(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("tool.raises", feedback=1))
    run_sync(wind.model.complete(wind.request()))
    assert settled(wind) == [("decide:c1", "tool.raises", False, False, False)]


def test_a_mistake_that_the_format_has_no_way_to_say_is_absorbed(bench) -> None:
    class Strict(OneCall):
        """Constrained to the tools that there are."""

        def render(self, move: Any) -> Reply:
            if isinstance(move, Act) and any(call.name != "add" for call in move.calls):
                raise Inexpressible("no such tool")
            return super().render(move)

    wind = bench.Bench(bench.chain(1), profile("decision.unknown_tool", feedback=1))
    assert run(wind, codec=Strict()) == "2"
    assert settled(wind) == [("decide:c1", "decision.unknown_tool", True, True, True)]


@pytest.mark.parametrize("role", [Role.DECIDE, Role.SELECT])
def test_a_model_that_is_shown_no_tool_meets_no_fault_of_calls(bench, role: Role) -> None:
    mistakes = [kind for kind in FAULT_KINDS if kind.startswith(("decision.", "tool."))]
    wind = bench.Bench(bench.chain(2), profile(*mistakes))
    for attempt in range(3):
        run_sync(wind.model.complete(Request((Message("user", f"Go on{attempt * '!'}"),), role=role)))
    assert settled(wind) == []


def test_a_fault_is_counted_at_a_point_once_however_often_it_strikes(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("wire.empty", after=1, attempts=5))
    run(wind)
    assert points(wind) == ["decide:c1", "decide:answer"]


# --- capabilities are no coin flips ---


def test_a_context_that_overflows_is_not_cured_by_asking_again(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile(abilities=Abilities(context_tokens=300)))
    assert wind.model.capabilities.context_tokens == 300
    for _ in range(5):
        with pytest.raises(ContextOverflow):
            run_sync(wind.model.complete(wind.request("x" * 2000)))
    assert run_sync(wind.model.complete(wind.request("x" * 20))).calls
    assert wind.tunnel.disturbances == []


@pytest.mark.parametrize("choice", ["required", "add"])
def test_a_model_without_tool_choice_refuses_it_each_time(bench, choice: str) -> None:
    wind = bench.Bench(bench.chain(1), profile(abilities=Abilities(tool_choice=False)))
    assert not wind.model.capabilities.tool_choice
    for _ in range(5):
        with pytest.raises(ProviderError) as raised:
            run_sync(wind.model.complete(wind.request(tool_choice=choice)))
        assert (raised.value.kind, raised.value.injected) == ("refused", True)
    for allowed in (None, "auto", "none"):
        assert run_sync(wind.model.complete(wind.request(tool_choice=allowed))).calls
    assert run_sync(bench.Bench(bench.chain(1)).model.complete(wind.request(tool_choice=choice))).calls


# --- forgetting ---


def test_forgetting_grows_with_the_distance_from_the_end_of_the_prompt(bench) -> None:
    """A result near the end, at half of the chance and far back, 300 trials each; what stands before it does not count."""
    wind = bench.Bench(bench.chain(1), Profile(name="f", forget=0.8))
    result = wind.results()["c1"]

    async def again(text: str, repeat: int) -> bool:
        model = Scripted(replace(wind.scripted.script, repeat=repeat), wind.tunnel)
        return bool((await model.complete(wind.request(text))).calls)

    async def rate(share: float) -> float:
        text = "." * 30_000 + result + "." * int(HALFWAY * share / (1 - share))
        return sum([await again(text, repeat) for repeat in range(300)]) / 300

    for share in (0.1, 0.5, 0.9):
        assert run_sync(rate(share)) == pytest.approx(0.8 * share, abs=0.08)


def test_what_was_forgotten_is_a_fault_that_lands_and_is_overcome(bench) -> None:
    for repeat in range(40):
        wind = bench.Bench(bench.chain(2), Profile(name="f", forget=0.9), repeat=repeat)
        answer = run(wind, limit=60)
        faults = settled(wind)
        assert {kind for _, kind, *_ in faults} <= {"decision.forget"}
        assert answer == 12
        assert all(landed and recovered for _, _, landed, _, recovered in faults)


# --- virtual time ---


def test_simulated_time_is_counted_and_not_slept(bench) -> None:
    started = time.monotonic()
    slow = bench.Bench(bench.chain(2), profile("tool.slow", slow_s=1000, latency_s=100))
    assert run(slow) == 12
    assert slow.tunnel.simulated_s == 2 * 1000 + 3 * 100
    late = bench.Bench(bench.chain(1), profile("provider.slow", slow_s=1000))
    assert run(late) == 2
    assert late.tunnel.simulated_s == 2 * 1000
    assert settled(late) == [(f"decide:{point}", "provider.slow", True, False, True) for point in ("answer", "c1")]
    assert time.monotonic() - started < 100


def test_a_hang_is_the_time_limit_s_error_at_once(bench) -> None:
    quick = Tool.from_function(bench.TOOLS[0].function, name="add", blocking=False, time_limit_s=7)
    for tools, limit in ((bench.TOOLS, 30), ((quick,), 7)):
        wind = bench.Bench(bench.chain(1), profile("tool.hangs", feedback=1), tools=tools)
        assert run(wind) == 2
        first = wind.ear.tool_calls[0][1]
        assert (first.error_type, first.data) == ("TimeoutError", f"no result within {limit} s")
        assert wind.tunnel.simulated_s == limit


@pytest.mark.parametrize("kind", ["tool.slow", "tool.hangs", "provider.slow"])
def test_in_real_time_delays_are_slept(bench, kind: str) -> None:
    quick = Tool.from_function(bench.TOOLS[0].function, name="add", blocking=False, time_limit_s=0.05)
    wind = bench.Bench(bench.chain(1), profile(kind, feedback=1, slow_s=0.05), tools=(quick,), real_time=True)
    started = time.monotonic()
    assert run(wind) == 2
    assert time.monotonic() - started >= 0.05
    assert wind.tunnel.simulated_s == 0


# --- patience, streams, the plan's own failures ---


def test_after_patience_another_way_is_taken(bench) -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=[other]),), Ref("c1"))
    wind = bench.Bench(plan, profile("decision.wrong_value", never=1, patience=2))
    run(wind, limit=6)
    made = [(call.arguments["a"], call.arguments["b"]) for call, _, _ in wind.ear.tool_calls]
    assert made == [(1, 3), (1, 3), (2, 2), (2, 2), (2, 2), (2, 2)]  # the last argument is wrong each time


def test_each_scope_has_a_patience_of_its_own(bench) -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=[other]),), Ref("c1"))
    wind = bench.Bench(plan, profile("tool.raises", never=1, patience=1))
    for scope in ("a", "b"):
        run(wind, limit=2, scope=scope)
    assert [call.arguments["a"] for call, _, _ in wind.ear.tool_calls] == [1, 2, 1, 2]


def test_a_tool_that_fails_for_true_ends_the_work(bench) -> None:
    """It worked when the plan was replayed, and does not now: no receipt of a result will ever come."""
    broken: list[bool] = []

    def add(a: int, b: int) -> int:
        if broken:
            raise RuntimeError("out of order")
        return a + b

    wind = bench.Bench(bench.chain(2), tools=(Tool.from_function(add, blocking=False),))
    broken.append(True)
    assert run(wind) == NOT_DETERMINED
    assert len(wind.ear.tool_calls) == 1


def test_a_model_bluffs_as_often_as_its_profile_says(bench) -> None:
    """Asked for the answer of a chain of which it knows nothing; 200 trials, and each sticks to what it does."""
    for bluff in (0, 0.3, 1):
        bluffed = 0
        wind = bench.Bench(bench.chain(2), Profile(name="b", bluff=bluff))
        for repeat in range(200):
            model = Scripted(replace(wind.scripted.script, repeat=repeat))
            said = {run_sync(model.complete(wind.request(role=Role.ANSWER))).text for _ in range(2)}
            assert len(said) == 1
            bluffed += said != {NOT_DETERMINED}
        assert bluffed / 200 == pytest.approx(bluff, abs=0.1)


def test_a_stream_gives_the_same_reply(bench) -> None:
    async def streamed(wind: Any, request: Any) -> tuple[str, list[NativeCall], Reply | None]:
        text, calls, reply = "", list[NativeCall](), None
        async for chunk in wind.scripted.stream(request):
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


# --- what other designs ask ---


def wide(bench: Any, count: int = 3) -> Plan:
    """Calls that can all be made at once."""
    calls = tuple(bench.planned(f"c{index}", "add", a=index, b=0) for index in range(1, count + 1))
    return Plan(calls, Ref(f"c{count}"))


@pytest.mark.parametrize("codec", [None, OneCall()], ids=["all at once", "one by one"])
def test_the_tools_faults_strike_all_calls_of_a_move_as_they_strike_them_one_by_one(bench, codec: Codec | None) -> None:
    wind = bench.Bench(wide(bench), profile("tool.raises"))
    assert run_sync(wind.run(codec=codec)) == "3"
    assert settled(wind) == [(f"decide:c{index}", "tool.raises", True, False, True) for index in (1, 2, 3)]
    failed = [call.arguments["a"] for call, seen, _ in wind.ear.tool_calls if not seen.ok]
    assert failed == [1, 2, 3]


def test_a_tool_s_fault_waits_for_the_first_run_of_its_call(bench) -> None:
    wind = bench.Bench(bench.chain(1), profile("tool.raises"))
    for text in ("", "Something else came first.", "And something more."):  # the call is decided on, and not made
        run_sync(wind.model.complete(wind.request(text)))
    call = wind.calls["c1"]
    assert not run_sync(wind.toolbox.call(call)).ok
    run_sync(wind.model.complete(wind.request("The call has failed.")))
    assert run_sync(wind.toolbox.call(call)).ok


def test_what_spoils_a_reply_is_drawn_for_its_first_call_only(bench) -> None:
    wind = bench.Bench(wide(bench), profile("wire.malformed"))
    run_sync(wind.run())
    assert points(wind) == ["decide:c1", "decide:answer"]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), rate=st.floats(0.1, 1))
def test_a_fault_at_a_later_call_of_a_move_is_the_one_that_would_meet_it_alone(bench, seed: int, rate: float) -> None:
    clears = Clears(feedback=1, after=0, never=0)
    blowing = Profile(name="one", rates={"tool.raises": rate / 2, "tool.huge": rate / 2}, clears=clears)
    at_once, one_by_one = (bench.Bench(wide(bench, 5), blowing, seed=seed) for _ in range(2))
    assert run_sync(at_once.run()) == run_sync(one_by_one.run(codec=OneCall())) == "5"
    assert settled(at_once) == settled(one_by_one)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_tool_escapes_its_fault_because_the_first_call_of_the_move_met_another(bench, seed: int) -> None:
    rates = {"tool.raises": 0.4, "tool.huge": 0.2, "provider.slow": 0.2, "decision.wrong_type": 0.2}
    blowing = Profile(name="one", rates=rates, clears=Clears(feedback=1, after=0, never=0))
    at_once, one_by_one = (bench.Bench(wide(bench, 5), blowing, seed=seed) for _ in range(2))
    assert run_sync(at_once.run()) == run_sync(one_by_one.run(codec=OneCall())) == "5"
    first, second = ([item for item in settled(wind) if item[1].startswith("tool.")] for wind in (at_once, one_by_one))
    assert first == second


def recovering(wind: Any, *, asks: bool) -> list[bool]:
    """A loop that asks how to recover, or makes the call again by itself; whether each run of the call went well."""
    move: Any = NATIVE.parse(run_sync(wind.model.complete(wind.request())))
    call = move.calls[0]
    seen = [run_sync(wind.toolbox.call(call)).ok]
    for attempt in range(3):
        if asks:
            text = f"add failed, attempt {attempt}, with {json.dumps(call.arguments)}"
            run_sync(wind.model.complete(wind.request(text, role=Role.RECOVER)))
        seen.append(run_sync(wind.toolbox.call(call)).ok)
    return seen


@pytest.mark.parametrize(
    ("clears", "asked", "by_itself"),
    [
        ({"feedback": 1}, [False, True, True, True], [False] * 4),
        ({"after": 1}, [False, False, True, True], [False, False, True, True]),
        ({"never": 1}, [False] * 4, [False] * 4),
    ],
)
def test_being_asked_to_recover_shows_the_model_that_the_call_failed(bench, clears, asked, by_itself) -> None:
    for asks, expected in ((True, asked), (False, by_itself)):
        assert recovering(bench.Bench(bench.chain(1), profile("tool.raises", **clears)), asks=asks) == expected


def test_whoever_asks_to_recover_uses_up_the_model_s_patience(bench) -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=(other,)),), Ref("c1"))
    wind = bench.Bench(plan, profile("tool.raises", never=1, patience=2))
    run_sync(wind.model.complete(wind.request()))
    said = []
    for attempt in range(4):
        request = wind.request(f"add failed {'again ' * attempt}with {{'a': 1, 'b': 2}}", role=Role.RECOVER, codec=Recoveries())
        said.append(run_sync(wind.model.complete(request)).text)
    assert said == ["retry 1", "alternative_tool 2", "skip", "skip"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("decision.unknown_tool", "alternative_tool 1"), ("decision.wrong_type", "retry 1"), ("tool.raises", "retry 1")],
)
def test_a_tool_that_does_not_exist_is_not_tried_again(bench, kind: str, expected: str) -> None:
    wind = bench.Bench(bench.chain(1), profile(kind))
    move: Any = NATIVE.parse(run_sync(wind.model.complete(wind.request())))
    call = move.calls[0]
    run_sync(wind.toolbox.call(call))
    for attempt in range(2):  # also when the first advice was not taken
        text = f"{call.name} failed {'again ' * attempt}with {json.dumps(call.arguments)}"
        said = run_sync(wind.model.complete(wind.request(text, role=Role.RECOVER, codec=Recoveries()))).text
        assert said == expected


class Recoveries:
    """Strategy and first argument."""

    name, role, max_calls = "recoveries", Role.RECOVER, 1

    def render(self, move: Any) -> Reply:
        return Reply(move.strategy if move.call is None else f"{move.strategy} {move.call.arguments['a']}")

    def parse(self, reply: Reply) -> Any:
        raise WireError("not read here")


def test_what_is_unknown_is_told_by_the_last_request_for_a_decision_or_the_answer(bench) -> None:
    wind = bench.Bench(bench.chain(2))
    results = wind.results()
    run_sync(wind.model.complete(wind.request(*results.values())))
    assert wind.tunnel.unknown == ()
    run_sync(wind.model.complete(Request((Message("user", "Draft: 12"),), role=Role.FORMAT)))
    assert wind.tunnel.unknown == ()
    run_sync(wind.model.complete(wind.request(results["c1"], role=Role.ANSWER)))
    assert wind.tunnel.unknown == ("c2",)


@pytest.mark.parametrize("role", list(Role))
def test_results_are_overlooked_where_they_can_still_be_asked_for(bench, role: Role) -> None:
    wind = bench.Bench(bench.chain(3), profile(forget=1))
    shown = wind.results().values()
    for attempt in range(6):
        run_sync(wind.model.complete(wind.request(*shown, "x" * 9 * HALFWAY, "again " * attempt, role=role)))
    overlooked = any(fault.kind == "decision.forget" for fault in wind.tunnel.disturbances)
    assert overlooked is (role in (Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT))


def test_usage_is_an_estimate_and_says_so(bench) -> None:
    wind = bench.Bench(bench.chain(1))
    usage = run_sync(wind.scripted.complete(wind.request())).usage
    assert usage.estimated
    assert usage.cost_usd is None
    assert usage.input_tokens > 50
    assert usage.output_tokens > 3


@pytest.mark.parametrize("role", list(Role))
def test_a_role_without_a_codec_of_its_own_is_answered_in_words_or_calls(bench, role: Role) -> None:
    wind = bench.Bench(bench.chain(2))
    shown = wind.results("c1")["c1"]
    reply = run_sync(wind.model.complete(wind.request(f"Find c2. {shown}", role=role)))
    assert bool(reply.calls) == (role in (Role.DECIDE, Role.SELECT))
    assert reply.text or reply.calls
    assert isinstance(NATIVE.parse(reply), Act | Answer)


def test_a_model_that_is_not_shown_the_question_is_at_a_loss(bench) -> None:
    script = replace(bench.Bench(bench.chain(1)).scripted.script, question="How many apples are there in all?")
    for text, known in (
        ("How many apples are there in all?", True),
        ('{"question": "How many\\napples are there, in ALL (all)?"}', True),
        ("(hidden)", False),
        ("How many?", False),
    ):
        request = Request((Message("user", f"{text} Tools: {', '.join(script.tools)}"),), codec=CODEC)
        move = CODEC.parse(run_sync(Scripted(script).complete(request)))
        assert isinstance(move, Act) is known, text
