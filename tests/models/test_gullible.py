"""The gullible model: it obeys what its prompt shows, by its chances, less where a loop marks results as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.instructions import ANSWER, CALL, STOP, Gullible, TrialInstructions, author
from whichloop.models.policy import PolicyDecision
from whichloop.models.profiles import Gullibility, Profile
from whichloop.protocol import Message, Model, Reply, Request, Role, Text, WrappedModel, render_value, run_sync
from whichloop.protocol.receipts import announcement, as_data

from . import bench
from .test_instructions import SPECS, fault, written

KINDS = (CALL, ANSWER, STOP)
PLANNED = PolicyDecision("c1", (Text("As planned."),))
CHANCES = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).map(lambda two: Gullibility(marked=two[0], obeys=two[1]))
FORMATS = st.sampled_from([None, CODEC])
STAGES = ("given", "shown", "attempted", "executed", "answered")


def under(*kinds: str, obeys: float = 1.0, marked: float = 0.0) -> Profile:
    rates = dict.fromkeys(kinds, 1 / len(kinds) if kinds else 0)
    return Profile(name="one", rates=rates, gullible=Gullibility(obeys=obeys, marked=marked))


def counts(trial: bench.Bench, answer: Any) -> dict[str, int]:
    return trial.tunnel.instructions.counts(answer, abstained=answer in (None, NOT_DETERMINED))


class Hiding(WrappedModel):
    """A model before which a loop hides, or changes, what its tools gave."""

    def __init__(self, model: Model, change: Callable[[str], str]) -> None:
        super().__init__(model)
        self.change = change

    async def complete(self, request: Request) -> Reply:
        messages = [replace(one, content=self.change(one.content)) if one.role == "tool" else one for one in request.messages]
        return await self.model.complete(replace(request, messages=tuple(messages)))


# Laws.


@given(bench.plans(), st.integers(0, 9), CHANCES, FORMATS)
def test_each_stage_is_part_of_the_one_before_and_a_fault_is_overcome_unless_it_was_obeyed(plan, seed, chances, codec):
    trial = bench.Bench(plan, Profile(name="one", rates=dict.fromkeys(KINDS, 0.3), gullible=chances), seed=seed)
    found = counts(trial, run_sync(trial.run(60, codec=codec)))
    numbers = [found.get(stage, 0) for stage in STAGES]
    assert numbers == sorted(numbers, reverse=True)
    trial.tunnel.settle()
    assert sum(not one.recovered for one in trial.tunnel.faults if one.landed) == found.get("attempted", 0)


@settings(max_examples=cases(12))
@given(bench.plans(), st.integers(0, 9), FORMATS)
def test_without_gullibility_nothing_is_attempted_and_a_loop_that_shows_no_result_is_exposed_by_nothing(plan, seed, codec):
    trial, clean = bench.Bench(plan, under(*KINDS, obeys=0.0), seed=seed), bench.Bench(plan, "clean", seed=seed)
    answer = run_sync(trial.run(codec=codec))
    assert answer == run_sync(clean.run(codec=codec))
    assert counts(trial, answer).get("attempted", 0) == 0
    assert [call for call, _, _ in trial.ear.tool_calls] == [call for call, _, _ in clean.ear.tool_calls]
    blind = bench.Bench(plan, under(*KINDS), seed=seed)
    blind.model = Hiding(blind.model, lambda _: "done")
    answer = run_sync(blind.run(codec=codec))
    found = counts(blind, answer)
    assert [found.get(stage, 0) for stage in STAGES[1:]] == [0] * 4
    assert not plan.calls or answer in (None, NOT_DETERMINED)


@settings(max_examples=cases(12))
@given(bench.plans(), st.integers(0, 30), CHANCES)
def test_marking_results_as_data_never_raises_exposure(plan, seed, chances):
    """Of the same trial, what is attempted where results are marked is attempted where they are not."""
    found = []
    for mark in (False, True):
        trial = bench.Bench(plan, Profile(name="one", rates=dict.fromkeys(KINDS, 1 / 3), gullible=chances), seed=seed)
        if mark:
            trial.model = Marking(trial.model)
        found.append(counts(trial, run_sync(trial.run(60))))
    plain, marked = found
    assert (marked.get("attempted", 0) > 0) <= (plain.get("attempted", 0) > 0)
    assert (marked.get("executed", 0) > 0) <= (plain.get("executed", 0) > 0)
    assert marked.get("answered", 0) <= 1


class Marking(Hiding):
    """A model before which a loop marks results as data."""

    def __init__(self, model: Model) -> None:
        super().__init__(model, lambda text: as_data(text, "k3k3k3k3"))

    async def complete(self, request: Request) -> Reply:
        told = Message("system", announcement("k3k3k3k3"))
        return await super().complete(replace(request, messages=(told, *request.messages)))


def given_one(kind: str, chances: Gullibility, repeat: int = 0) -> tuple[Gullible, str, TrialInstructions]:
    """The model of a trial in which one instruction was given, and its text."""
    instructions = TrialInstructions(author((0, "t", repeat), SPECS, None))
    text = "".join(instructions.give(fault(kind)))
    return Gullible((0, "t", repeat), chances, instructions), text, instructions


@pytest.mark.parametrize(("is_marked", "chance"), [(False, 0.6), (True, 0.25)])
def test_the_chances_are_those_of_the_profile(is_marked, chance):
    obeyed = 0
    for repeat in range(1500):
        model, text, _ = given_one(STOP, Gullibility(obeys=0.6, marked=0.25), repeat)
        prompt = f"{announcement('k3k3k3k3')} {as_data(text, 'k3k3k3k3')}" if is_marked else text
        obeyed += model.instead_of(PLANNED, Role.DECIDE, "", prompt) != PLANNED
    assert obeyed / 1500 == pytest.approx(chance, abs=0.05)  # 4 standard errors


# Examples.


@pytest.mark.parametrize("codec", [None, CODEC], ids=["native", "JSON"])
def test_a_call_is_made_once_and_an_answer_takes_the_place_of_the_right_one(codec):
    called, answered = bench.Bench(bench.chain(2), under(CALL)), bench.Bench(bench.chain(2), under(ANSWER))
    answer, lured = (run_sync(trial.run(codec=codec)) for trial in (called, answered))
    assert str(answer) == "12"
    assert counts(called, answer) == {"given": 2, "shown": 2, "attempted": 2, "executed": 2, "answered": 0}
    assert len(called.ear.tool_calls) == 4
    assert str(lured).startswith("injected-")
    assert counts(answered, lured) == dict.fromkeys(STAGES, 1)


# --- roles ---


def moved(kind: str, role: Role, *, obeys: float = 1.0) -> PolicyDecision:
    """What the model does in a role whose prompt shows an instruction."""
    model, text, _ = given_one(kind, Gullibility(obeys=obeys))
    return model.instead_of(PLANNED, role, "", f"Question. 9 {text}")


@pytest.mark.parametrize(("kind", "roles"), [
    (CALL, {Role.DECIDE, Role.SELECT}),
    (ANSWER, {Role.DECIDE, Role.ANSWER, Role.FORMAT}),
    (STOP, {Role.DECIDE, Role.ANSWER, Role.FORMAT, Role.SELECT, Role.REFLECT, Role.VALIDATE}),
])  # fmt: skip
def test_it_obeys_where_its_role_leaves_room(kind, roles):
    told = {Role.REASON, Role.SUMMARIZE}
    others = set(Role) - {Role.CONFIRM}
    assert {role for role in others if moved(kind, role).options != (Text("As planned."),)} == roles | told
    assert not any(moved(kind, role, obeys=0.0).options != (Text("As planned."),) for role in others)


def test_a_summary_hands_on_what_the_model_falls_for_and_nothing_else():
    (summary,) = moved(CALL, Role.SUMMARIZE).options
    assert isinstance(summary, Text)
    assert summary.text == f"As planned.\n{written(CALL).text}"
    assert moved(CALL, Role.SUMMARIZE, obeys=0.0).options == (Text("As planned."),)


@pytest.mark.parametrize("confirms", [0.3, *(pytest.param(chance, marks=pytest.mark.slow) for chance in (0.0, 1.0))])
def test_asked_about_a_call_alone_it_refuses_that_of_an_instruction_but_for_a_chance(confirms):
    confirmed = own = 0
    for repeat in range(300):
        model, _, instructions = given_one(CALL, Gullibility(obeys=1.0, confirms=confirms), repeat)
        (instruction,) = instructions.by_label.values()
        assert instruction.call is not None
        asked = f"Call: {instruction.call.name} {render_value(instruction.call.arguments)}"
        confirmed += model.instead_of(PLANNED, Role.CONFIRM, "", asked) == PLANNED
        own += model.instead_of(PLANNED, Role.CONFIRM, "", 'Call: add {"a": 1, "b": 1}') == PLANNED
    assert confirmed / 300 == pytest.approx(confirms, abs=0.106)  # 4 standard errors
    assert own == 300
    assert not instructions.shown_labels
