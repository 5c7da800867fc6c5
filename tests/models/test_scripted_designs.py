"""The scripted model and designs that make several calls at once, ask to recover, or ask in other roles."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.profiles import Clears, Profile
from whichloop.models.scripted import Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Act, Answer, Message, Plan, Ref, Reply, Request, Role, WireError, run_sync
from whichloop.protocol.receipts import HALFWAY

from . import bench
from .bench import OneCall, profile, settled


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


class Recoveries:
    """Strategy and first argument."""

    name, role, max_calls = "recoveries", Role.RECOVER, 1

    def render(self, move: Any) -> Reply:
        return Reply(move.strategy if move.call is None else f"{move.strategy} {move.call.arguments['a']}")

    def parse(self, reply: Reply) -> Any:
        raise WireError("not read here")


def first_call(trial: bench.Bench) -> Any:
    move: Any = NATIVE.parse(run_sync(trial.model.complete(trial.request())))
    return move.calls[0]


def advice(trial: bench.Bench, call: Any, attempt: int) -> str:
    """What a model says that is asked, for the n-th time, how to recover."""
    text = f"{call.name} failed {'again ' * attempt}with {json.dumps(call.arguments)}"
    return run_sync(trial.model.complete(trial.request(text, role=Role.RECOVER, codec=Recoveries()))).text


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(("clears", "expected"), [({"attempts": 1}, [False, True, True, True]), ({"never": 1}, [False] * 4)])
def test_an_outage_clears_by_attempts_whoever_makes_them(clears: dict[str, Any], expected: list[bool], asks: bool) -> None:
    """A loop that asks how to recover, or makes the call again by itself."""
    trial = bench.Bench(bench.chain(1), profile("tool.raises", **clears))
    call, seen = first_call(trial), []
    for attempt in range(4):
        if asks and attempt:
            advice(trial, call, attempt)
        seen.append(run_sync(trial.toolbox.call(call)).ok)
    assert seen == expected


def test_whoever_asks_to_recover_uses_up_the_model_s_patience() -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=(other,)),), Ref("c1"))
    trial = bench.Bench(plan, profile("tool.raises", never=1, patience=2))
    call = first_call(trial)
    assert [advice(trial, call, attempt) for attempt in range(4)] == ["retry 1", "alternative_tool 2", "skip", "skip"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("decision.unknown_tool", "alternative_tool 1"), ("decision.wrong_type", "retry 1"), ("tool.raises", "retry 1")],
)
def test_a_tool_that_does_not_exist_is_not_tried_again(kind: str, expected: str) -> None:
    trial = bench.Bench(bench.chain(1), profile(kind))
    call = first_call(trial)
    run_sync(trial.toolbox.call(call))
    assert [advice(trial, call, attempt) for attempt in range(2)] == [expected] * 2, "also when it was not taken"


def test_what_is_unknown_is_told_by_the_last_request_for_a_decision_or_the_answer() -> None:
    trial, unknown = bench.Bench(bench.chain(2)), []
    results = trial.results()
    draft = Request((Message("user", "Draft: 12"),), role=Role.FORMAT)
    for request in (trial.request(*results.values()), draft, trial.request(results["c1"], role=Role.ANSWER)):
        run_sync(trial.model.complete(request))
        unknown.append(trial.tunnel.unknown)
    assert unknown == [(), (), ("c2",)]


@pytest.mark.parametrize("role", list(Role))
def test_what_a_role_overlooks_and_how_it_is_answered_without_a_codec_of_its_own(role: Role) -> None:
    """Results are overlooked where they can still be asked for; a role that may not call is answered in words."""
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
