"""Weaknesses: what each kind does, in any wire format, and that nothing happens that is not noted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.loops.bare_codecs import FORMATS
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.profiles import WEAKNESS_KINDS, Profile, Weakness
from whichloop.models.weaknesses import CURES, in_thousands, slips_of
from whichloop.protocol import Codec, Message, Plan, Ref, Reply, Request, Role, run_sync
from whichloop.protocol.receipts import MARK

from . import bench
from .weak_trials import KINDS, LAW, SPECS, TOOLS, Told, noted, product, said, told, weak

ALL_HINTS = "\n".join(CURES.values())
CODECS: dict[str, Codec | None] = {"native": None, "bare": FORMATS["json"]}


@LAW
@given(
    plan=bench.plans(),
    codec=st.sampled_from(list(CODECS.values())),
    seed=st.integers(0, 10**6),
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
)
def test_what_is_not_noted_did_not_happen_and_where_the_instructions_hold_every_hint_nothing_does(plan, codec, seed, kinds):
    clean = Profile(name="c", bluff=0.0)
    for hinted in (True, False):
        ours, theirs = (bench.Bench(plan, profile, seed=seed) for profile in (weak(*sorted(kinds)), clean))
        trial, other = (told(each, ALL_HINTS) for each in (ours, theirs)) if hinted else (ours, theirs)
        answers = [run_sync(each.run(codec=codec)) for each in (trial, other)]
        faults = noted(ours)
        assert len(faults) == len(set(faults))
        assert {kind for kind, _ in faults} <= {f"weakness.{kind}" for kind in kinds} <= WEAKNESS_KINDS.keys()
        assert all(fault.landed and not fault.absorbed and not fault.recovered for fault in ours.tunnel.faults)
        assert not (hinted and faults)
        if not faults:
            assert answers[0] == answers[1]
            assert said(ours) == said(theirs)


@LAW
@given(
    factors=st.lists(st.integers(1, 10**4), min_size=1, max_size=5, unique=True), linked=st.booleans(), seed=st.integers(0, 10**6)
)
def test_the_same_slips_whatever_the_format_and_scope(factors: list[int], linked: bool, seed: int) -> None:
    calls = [
        bench.planned(f"c{place}", "times", a=factor, b=Ref(f"c{place - 1}") if linked and place else factor)
        for place, factor in enumerate(factors)
    ]
    slips = []
    for codec, scope in ((None, "x"), (None, ""), (FORMATS["json"], "")):
        plan = Plan(tuple(calls), Ref(calls[-1].id))
        trial = bench.Bench(plan, weak(*KINDS, rate=0.5), seed=seed, tools=TOOLS)
        run_sync(trial.run(codec=codec, scope=scope))
        slips.append(sorted(noted(trial)))
    assert slips[0] == slips[1] == slips[2]


@LAW
@given(data=st.data())
def test_demonstrations_are_not_the_task_at_hand(data: st.DataObject) -> None:
    """Neither results, even with receipts of this very trial, nor goals nor the question count where they stand in an example."""
    plan = data.draw(bench.plans())
    plain, shown = bench.Bench(plan), bench.Bench(plan)
    results = list(shown.results().values())
    plain.results()
    goals = [call.goal for call in plan.calls]
    texts = data.draw(st.permutations([*results, *goals, bench.QUESTION]))
    examples = tuple(Message(data.draw(st.sampled_from(("user", "assistant"))), text) for text in texts)
    live = data.draw(st.lists(st.sampled_from(results), unique=True)) if results else []
    role = data.draw(st.sampled_from((Role.DECIDE, Role.PLAN, Role.SELECT, Role.REASON, Role.REFLECT, Role.ANSWER)))
    codec = Saying(role)
    system = data.draw(st.sampled_from(((), (Message("system", "Do it."),))))
    asked = plain.request(*live, role=role, codec=codec)
    without = replace(asked, messages=(*system, *asked.messages))
    withal = replace(asked, messages=(*system, *examples, *asked.messages), examples=len(examples))
    assert run_sync(plain.scripted.complete(without)).text == run_sync(shown.scripted.complete(withal)).text


class Saying:
    """A codec of any role whose reply is the move in Python's words."""

    name = "saying"
    max_calls = 8

    def __init__(self, role: Role) -> None:
        self.role = role

    def render(self, move: Any) -> Reply:
        return Reply(repr(move))

    def parse(self, reply: Reply) -> Any:
        raise AssertionError("nobody reads these")


ROLES = st.sampled_from(("user", "assistant", "system"))


@given(examples=st.lists(ROLES, max_size=4), after=st.lists(ROLES, max_size=3), system=st.booleans())
def test_examples_stand_behind_the_system_message_that_begins_the_request_or_first(examples, after, system):
    assume(system or (examples + after)[:1] != ["system"])
    head = [Message("system", "text")] if system else []
    shown = [Message(role, f"example {number}") for number, role in enumerate(examples)]
    rest = [Message(role, f"live {number}") for number, role in enumerate(after)]
    request = Request((*head, *shown, *rest), examples=len(shown))
    assert list(request.messages[request.demonstrations]) == shown


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_unit_numbers_are_a_hundredth_and_the_result_is_believed(codec: Codec | None) -> None:
    trial = bench.Bench(product(), weak("unit"), tools=TOOLS)
    assert float(run_sync(trial.run(codec=codec))) == pytest.approx(2 * 0.03 * 0.005)
    assert [dict(call.arguments) for call, _, _ in trial.ear.tool_calls] == [{"a": 2, "b": 0.03}, {"a": 0.06, "b": 0.005}]
    assert noted(trial) == [("weakness.unit", "decide:c1"), ("weakness.unit", "decide:c2")]


CALLED: dict[str, tuple[str, Plan, str, list[dict[str, Any]], list[str]]] = {
    "a whole number stays whole": (
        "unit",
        Plan((bench.planned("c1", "seats", count=550), bench.planned("c2", "seats", count=7)), Ref("c1")),
        "995", [{"count": 5}, {"count": 0}], ["decide:c1", "decide:c2"],
    ),
    "no error message cures a date with the day first": (
        "date", Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1")),
        NOT_DETERMINED, [{"date": "03/05/2026"}], ["decide:c1"],
    ),
    "the last call is forgotten and its result made up": ("step", product(), "4711", [{"a": 200, "b": 3}], ["decide:c2"]),
    "an answer is stated in thousands": (
        "answer", product(), "0.3 thousand", [{"a": 200, "b": 3}, {"a": 600, "b": 0.5}], ["decide:answer"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "plan", "answer", "called", "points"), CALLED.values(), ids=CALLED.keys())
def test_what_a_kind_does(kind: str, plan: Plan, answer: str, called: list[Any], points: list[str]) -> None:
    trial = bench.Bench(plan, weak(kind), tools=TOOLS)
    assert run_sync(trial.run()) == answer
    made = [dict(call.arguments) for call, _, _ in trial.ear.tool_calls]
    assert [arguments for place, arguments in enumerate(made) if arguments not in made[:place]] == called
    assert noted(trial) == [(f"weakness.{kind}", point) for point in points]


@given(number=st.integers(-(10**12), 10**12) | st.floats(-1e12, 1e12))
def test_a_number_in_thousands_is_wrong_to_a_scorer(number: float) -> None:
    assume(abs(number) > 1e-6)
    task: Any = type("T", (), {"expected": number})
    assert scorer_named("numeric")(Judgement(task, str(number), "finished")) == 1
    assert scorer_named("numeric")(Judgement(task, in_thousands(number), "finished")) == 0


def test_a_weakness_with_nothing_to_spoil_never_shows() -> None:
    plan = Plan((bench.planned("c1", "weekday", date="today"),), Ref("c1"))
    weaknesses = weak("unit", "date").weaknesses
    assert slips_of(plan, weaknesses, (0, "t", 0), SPECS) == ()
    assert slips_of(Plan((), 5), weak("step").weaknesses, (0, "t", 0), SPECS) == ()
    assert slips_of(plan, (Weakness(kind="step", rate=1, tool="times"),), (0, "t", 0), SPECS) == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_rate_is_the_share_of_trials(kind: str, rate: float) -> None:
    plan = Plan((bench.planned("c1", "weekday", date="2026-05-03"), bench.planned("c2", "times", a=2, b=3)), Ref("c2"))
    weaknesses = weak(kind, rate=rate).weaknesses
    shown = sum(bool(slips_of(plan, weaknesses, (1, f"task {number % 100}", number // 100), SPECS)) for number in range(1000))
    assert shown / 1000 == pytest.approx(rate, abs=0.06)


def ask(trial: bench.Bench, text: str, *results: str, role: Role = Role.DECIDE) -> Reply:
    request = trial.request(*results, role=role, codec=Saying(role))
    return run_sync(Told(trial.model, text).complete(request))


def test_a_request_without_the_hint_goes_on_with_what_another_has_made_right() -> None:
    """One predictor decides with the hint, another states the answer without it. A receipt without its value does not count."""
    trial = bench.Bench(product(), weak("unit", "step"), tools=TOOLS)
    assert "300.0" in ask(trial, "", *trial.results().values(), role=Role.ANSWER).text
    assert noted(trial) == []
    alone = bench.Bench(product(), weak("unit"), tools=TOOLS)
    first = alone.results("c1")["c1"]
    assert "'a': 200" not in ask(alone, "", first).text
    assert "'a': 2," in ask(alone, "", " ".join(found[0] for found in MARK.finditer(first))).text


def test_a_slip_is_recovered_when_the_right_call_is_made_or_the_answer_is_stated_right_later() -> None:
    trial = bench.Bench(product(), weak("unit"), tools=TOOLS)
    assert "'a': 2" in ask(trial, "").text
    ask(trial, CURES["unit"])
    trial.results("c1")
    trial.tunnel.settle()
    assert [(fault.kind, fault.landed, fault.recovered) for fault in trial.tunnel.faults] == [("weakness.unit", True, True)]
    answers, recovered = bench.Bench(product(), weak("answer"), tools=TOOLS), []
    shown = tuple(answers.results().values())
    for text in ("", CURES["answer"], ""):
        ask(answers, text, *shown, role=Role.ANSWER)
        recovered.append([fault.recovered for fault in answers.tunnel.faults])
    assert recovered == [[False], [True], [False]]
