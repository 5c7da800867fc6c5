"""Receipts: the model knows what its prompt shows, in whatever format, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.models.receipts import issue
from whichloop.datasets import arithmetic
from whichloop.datasets.validity import replay
from whichloop.models.receipts import Ledger, call_digest, content_digest
from whichloop.protocol import Plan, Ref, refs, run_sync
from whichloop.protocol.receipts import HALFWAY, MARK, bare, sightings, strip_receipts

from . import bench

LAW = settings(max_examples=cases(25), deadline=None)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
ARGUMENTS = st.dictionaries(st.text(max_size=5), st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3)), max_size=4)

EMBEDDINGS: dict[str, Callable[[str], str]] = {
    "prose": lambda text: f"The tool said {text}, I believe.",
    "json": lambda text: json.dumps({"status": "success", "data": text}),
    "json in json in json": lambda text: json.dumps({"content": json.dumps([json.dumps({"data": text})])}),
    "xml": lambda text: f"<result tool='add'>{escape(text)}</result>",
    "markdown": lambda text: f"| tool | result |\n|---|---|\n| add | {text} |",
}


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS.keys())
@LAW
@given(arguments=ARGUMENTS, result=st.text(max_size=30))
def test_a_receipt_is_found_in_any_format(embed: Callable[[str], str], arguments: dict[str, object], result: str) -> None:
    entry = issue(Ledger(), "add", arguments, result, result, True)
    found = sightings(embed(entry.signed))
    (sighting,) = found[entry.call]
    assert sighting.content == entry.content == content_digest(result)
    assert sighting.side == "both"


@LAW
@given(arguments=ARGUMENTS, data=st.data())
def test_a_call_is_recognised_by_its_arguments_in_any_order(arguments: dict[str, object], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(arguments.items()))))
    assert call_digest("add", shuffled) == call_digest("add", arguments)
    assert call_digest("subtract", arguments) != call_digest("add", arguments)
    assert call_digest("add", arguments | {"one more": 1}) != call_digest("add", arguments)


def test_arguments_that_json_cannot_say_have_a_receipt_too() -> None:
    assert call_digest("add", {"a": {2, 1}}) == call_digest("add", {"a": {1, 2}})
    assert call_digest("add", {"a": float("nan")}) != call_digest("add", {"a": 1})


@LAW
@given(text=st.text(max_size=40), result=st.text(max_size=10))
def test_without_its_receipt_a_result_is_as_the_tool_gave_it(text: str, result: str) -> None:
    entry = issue(Ledger(), "add", {}, result, result, True)
    assert strip_receipts(f"{text}{entry.signed}{text}") == f"{text}{result}{text}"


def test_receipts_are_unique_within_every_plan_of_the_default_suite() -> None:
    suite = arithmetic.load()
    for task in suite.tasks:
        calls = [call_digest(call.tool, call.arguments) for call in run_sync(replay(task, suite))]
        assert len(set(calls)) == len(calls)


@LAW
@given(data=st.data())
def test_receipts_are_unique_within_any_plan(data: st.DataObject) -> None:
    trial = bench.Bench(data.draw(bench.plans()))
    assert len({truth.call for truth in trial.oracle.values()}) == len(trial.oracle)


def test_of_two_receipts_of_a_call_the_last_counts() -> None:
    ledger = Ledger()
    first, second = (issue(ledger, "read", {}, text, text, True) for text in ("old", "new"))
    assert sightings(f"{first.signed} and then {second.signed}")[first.call][-1].content == second.content
    assert sightings(f"{second.signed} and then {first.signed}")[first.call][-1].content == first.content


@LAW
@given(st.lists(st.text("abc ", max_size=20), min_size=1, max_size=5))
def test_distance_is_counted_from_the_end_of_the_prompt(between: list[str]) -> None:
    receipts = [issue(Ledger(), "add", {"a": number}, "12", 12, True) for number in range(len(between))]
    prompt = "".join(f"{receipt.signed}{text}" for receipt, text in zip(receipts, between, strict=True))
    found, length = sightings(prompt), len(prompt)
    distances = [found[receipt.call][0].distance(length) for receipt in receipts]
    assert distances == sorted(distances, reverse=True)
    behind = len(" [0123ab.4567:r]") + len(between[-1])
    assert distances[-1] == behind / (behind + HALFWAY)
    assert all(found[receipt.call][0].distance(length, 0.5) > found[receipt.call][0].distance(length) for receipt in receipts)


# --- what the model makes of them ---


@LAW
@given(data=st.data())
def test_a_planned_call_is_known_iff_its_receipt_and_those_of_its_dependencies_are_shown(data: st.DataObject) -> None:
    plan = data.draw(bench.plans())
    trial = bench.Bench(plan)
    results = trial.results()
    shown = data.draw(st.sets(st.sampled_from(sorted(results)))) if results else set()
    view = trial.view(*(results[name] for name in shown))
    expected: set[str] = set()
    for call in plan.calls:
        if call.id in shown and plan.dependencies[call.id] <= expected:
            expected.add(call.id)
    assert set(view.results) == expected
    assert not view.misled
    assert not view.stuck


@LAW
@given(data=st.data())
def test_results_whose_receipts_are_cut_away_are_not_known(data: st.DataObject) -> None:
    trial = bench.Bench(data.draw(bench.plans()))
    results = trial.results()
    cut = [text[1:-1] for text in results.values()]
    assert not trial.view(*cut, *map(strip_receipts, results.values())).results


@LAW
@given(plan=bench.plans().filter(lambda plan: plan.uses and any(refs(plan.answer))), data=st.data())
def test_a_receipt_without_its_value_is_illegible_until_the_value_has_served(plan: Plan, data: st.DataObject) -> None:
    trial = bench.Bench(plan)
    texts = trial.results()
    said = [name for name in sorted(plan.uses) if bare(strip_receipts(texts[name]))]  # of quotes and space there is nothing to miss
    assume(said)
    emptied = data.draw(st.sampled_from(said))
    texts |= {emptied: " ".join(found[0] for found in MARK.finditer(texts[emptied]))}
    truth = trial.oracle[emptied]
    receipt = f"{truth.call}.{truth.content}"
    assert trial.view(*texts.values()).illegible == (receipt,)
    assert trial.view(*trial.results().values()).illegible == ()  # from now on the calls that use it are known by their receipts
    is_stated = any(None in users for users in plan.uses[emptied].values())
    assert trial.view(*texts.values()).illegible == ((receipt,) if is_stated else ())


def test_a_value_that_merely_stands_in_the_question_does_not_count() -> None:
    trial = bench.Bench(bench.chain(3))
    trial.results()
    view = trial.view("Is it true that 1 + 1 = 2, that 2 + 10 = 12 and 12 + 10 = 22? The answer is 22.")
    assert not view.results


def test_a_receipt_that_was_not_issued_in_this_trial_means_nothing() -> None:
    other, trial = bench.Bench(bench.chain(2)), bench.Bench(bench.chain(2))
    demonstration = other.results()
    assert other.view(*demonstration.values()).results.keys() == {"c1", "c2"}
    assert not trial.view(*demonstration.values()).results


@pytest.mark.parametrize("name", ["c1", "c2", "c3"])
def test_a_lie_is_believed_and_what_depends_on_it_comes_out_wrong(name: str) -> None:
    """A tool lies once, about one call of three; the calls after it are made for true, with what was believed."""
    trial = bench.Bench(bench.chain(3))
    values: dict[str, int] = {}
    for planned in trial.plan.calls:
        ref = planned.arguments["a"]
        arguments = {"a": values[ref.call] if isinstance(ref, Ref) else ref, "b": planned.arguments["b"]}
        values[planned.id] = arguments["a"] + arguments["b"] + (100 if planned.id == name else 0)
        value = values[planned.id]
        issue(trial.tunnel.ledger, "add", arguments, str(value), value, True)
    view = trial.view(*(entry.signed for entry in trial.tunnel.ledger.issued))
    assert view.results.keys() == {"c1", "c2", "c3"}
    assert view.misled
    assert view.values["c3"] == 122


def test_a_later_true_result_takes_the_place_of_a_lie() -> None:
    trial = bench.Bench(bench.chain(3))
    lie = issue(trial.tunnel.ledger, "add", {"a": 1, "b": 1}, "3", 3, True)
    believed = issue(trial.tunnel.ledger, "add", {"a": 3, "b": 10}, "13", 13, True)
    assert trial.view(lie.signed, believed.signed).values == {"c1": 3, "c2": 13}
    truth = issue(trial.tunnel.ledger, "add", {"a": 1, "b": 1}, "2", 2, True)
    now = trial.view(lie.signed, believed.signed, truth.signed)
    assert now.values == {"c1": 2}  # what was made of the lie is no call of the plan
    assert not now.misled


@pytest.mark.parametrize("answer", [7, "seven", [1, 2], (1, 2), {"n": 7}, True])
def test_a_lie_makes_a_stated_answer_wrong_too(answer: object) -> None:
    plan = Plan((bench.planned("c1", "add", a=1, b=2),), answer)
    honest, lied = bench.Bench(plan), bench.Bench(plan, _profile("tool.lies"))
    assert run_sync(honest.run()) == honest.expected
    assert run_sync(lied.run()) not in (lied.expected, None)


def _profile(kind: str):
    from whichloop.models.profiles import Clears, Profile

    return Profile(name="one", notices=0.0, rates={kind: 1.0}, clears=Clears(never=1))
