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
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Message,
    Plan,
    Ref,
    Reply,
    Request,
    Role,
    WireError,
    run_sync,
)
from whichloop.protocol.receipts import HALFWAY

from . import bench
from .scripted_trials import OneCall, profile, settled


def wide(count: int = 3) -> Plan:
    """Calls that can all be made at once."""
    calls = tuple(bench.planned(f"c{index}", "add", a=index, b=0) for index in range(1, count + 1))
    return Plan(calls, Ref(f"c{count}"))


@pytest.mark.parametrize("codec", [None, OneCall()], ids=["all at once", "one by one"])
def test_the_tools_faults_strike_all_calls_of_a_move_as_they_strike_them_one_by_one(codec: Codec | None) -> None:
    trial = bench.Bench(wide(), profile("tool.raises"))
    assert run_sync(trial.run(codec=codec)) == "3"
    assert settled(trial) == [(f"tool:c{index}", "tool.raises", True, False, True) for index in (1, 2, 3)]
    failed = [call.arguments["a"] for call, seen, _ in trial.ear.tool_calls if not seen.ok]
    assert failed == [1, 2, 3]


@settings(max_examples=cases(15), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_tool_escapes_its_fault_because_the_first_call_of_the_move_met_another(seed: int) -> None:
    rates = {"tool.raises": 0.4, "tool.huge": 0.2, "provider.slow": 0.2, "decision.wrong_type": 0.2}
    blowing = Profile(name="one", rates=rates, clears=Clears(never=0, attempts=1))
    at_once, one_by_one = (bench.Bench(wide(5), blowing, seed=seed) for _ in range(2))
    assert run_sync(at_once.run()) == run_sync(one_by_one.run(codec=OneCall())) == "5"
    first, second = ([item for item in settled(trial) if item[1].startswith("tool.")] for trial in (at_once, one_by_one))
    assert first == second


def recovering(trial: bench.Bench, *, asks: bool) -> list[bool]:
    """A loop that asks how to recover, or makes the call again by itself; whether each run of the call went well."""
    move: Any = NATIVE.parse(run_sync(trial.model.complete(trial.request())))
    call = move.calls[0]
    seen = [run_sync(trial.toolbox.call(call)).ok]
    for attempt in range(3):
        if asks:
            text = f"add failed: service unavailable, try again; attempt {attempt}, with {json.dumps(call.arguments)}"
            run_sync(trial.model.complete(trial.request(text, role=Role.RECOVER)))
        seen.append(run_sync(trial.toolbox.call(call)).ok)
    return seen


@pytest.mark.parametrize("asks", [True, False])
def test_an_outage_clears_by_attempts_whoever_makes_them(asks: bool) -> None:
    for clears, expected in (({"attempts": 1}, [False, True, True, True]), ({"never": 1}, [False] * 4)):
        assert recovering(bench.Bench(bench.chain(1), profile("tool.raises", **clears)), asks=asks) == expected


def test_whoever_asks_to_recover_uses_up_the_model_s_patience() -> None:
    other = bench.planned("c1", "add", a=2, b=1)
    plan = Plan((bench.planned("c1", "add", a=1, b=2, alternatives=(other,)),), Ref("c1"))
    trial = bench.Bench(plan, profile("tool.raises", never=1, patience=2))
    run_sync(trial.model.complete(trial.request()))
    said = []
    for attempt in range(4):
        request = trial.request(f"add failed {'again ' * attempt}with {{'a': 1, 'b': 2}}", role=Role.RECOVER, codec=Recoveries())
        said.append(run_sync(trial.model.complete(request)).text)
    assert said == ["retry 1", "alternative_tool 2", "skip", "skip"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("decision.unknown_tool", "alternative_tool 1"), ("decision.wrong_type", "retry 1"), ("tool.raises", "retry 1")],
)
def test_a_tool_that_does_not_exist_is_not_tried_again(kind: str, expected: str) -> None:
    trial = bench.Bench(bench.chain(1), profile(kind))
    move: Any = NATIVE.parse(run_sync(trial.model.complete(trial.request())))
    call = move.calls[0]
    run_sync(trial.toolbox.call(call))
    for attempt in range(2):  # also when the first advice was not taken
        text = f"{call.name} failed {'again ' * attempt}with {json.dumps(call.arguments)}"
        said = run_sync(trial.model.complete(trial.request(text, role=Role.RECOVER, codec=Recoveries()))).text
        assert said == expected


class Recoveries:
    """Strategy and first argument."""

    name, role, max_calls = "recoveries", Role.RECOVER, 1

    def render(self, move: Any) -> Reply:
        return Reply(move.strategy if move.call is None else f"{move.strategy} {move.call.arguments['a']}")

    def parse(self, reply: Reply) -> Any:
        raise WireError("not read here")


def test_what_is_unknown_is_told_by_the_last_request_for_a_decision_or_the_answer() -> None:
    trial = bench.Bench(bench.chain(2))
    results = trial.results()
    unknown = []
    for request in (
        trial.request(*results.values()),
        Request((Message("user", "Draft: 12"),), role=Role.FORMAT),
        trial.request(results["c1"], role=Role.ANSWER),
    ):
        run_sync(trial.model.complete(request))
        unknown.append(trial.tunnel.unknown)
    assert unknown == [(), (), ("c2",)]


@pytest.mark.parametrize("role", list(Role))
def test_results_are_overlooked_where_they_can_still_be_asked_for(role: Role) -> None:
    trial = bench.Bench(bench.chain(3), profile(forget=1))
    shown = trial.results().values()
    for attempt in range(6):
        run_sync(trial.model.complete(trial.request(*shown, "x" * 9 * HALFWAY, "again " * attempt, role=role)))
    overlooked = any(fault.kind == "decision.forget" for fault in trial.tunnel.faults)
    assert overlooked is (role in (Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT))


def test_usage_is_an_estimate_and_says_so() -> None:
    trial = bench.Bench(bench.chain(1))
    usage = run_sync(trial.scripted.complete(trial.request())).usage
    assert usage is not None
    assert usage.estimated
    assert usage.cost_usd is None
    assert usage.input_tokens > 50
    assert usage.output_tokens > 3


@pytest.mark.parametrize("role", list(Role))
def test_a_role_without_a_codec_of_its_own_is_answered_in_words_or_calls(role: Role) -> None:
    trial = bench.Bench(bench.chain(2))
    shown = trial.results("c1")["c1"]
    reply = run_sync(trial.model.complete(trial.request(f"Find c2. {shown}", role=role)))
    assert bool(reply.calls) == (role in (Role.DECIDE, Role.SELECT))
    assert reply.text or reply.calls
    assert isinstance(NATIVE.parse(reply), Act | Answer)


def test_a_model_that_is_not_shown_the_question_is_at_a_loss() -> None:
    script = replace(bench.Bench(bench.chain(1)).scripted.script, question="How many apples are there in all?")
    for text, known in (
        ("How many apples are there in all?", True),
        ('{"question": "How many\\napples are THERE, in all?"}', True),
        ("There are many apples.", True),
        ("(hidden)", False),
    ):
        request = Request((Message("user", f"{text} Tools: {', '.join(script.tools)}"),), codec=CODEC)
        move = CODEC.parse(run_sync(Scripted(script).complete(request)))
        assert isinstance(move, Act) is known, text
