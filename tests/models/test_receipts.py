"""Receipts: the model knows what its prompt shows, in whatever format, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.models.bench import issue
from whichloop.models.profiles import Clears, Profile
from whichloop.models.receipts import Ledger, believed, call_digest, content_digest, paired_results
from whichloop.protocol import Message, NativeCall, Plan, Ref, refs, run_sync
from whichloop.protocol.receipts import MARK, bare, sightings, strip_receipts

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
    found = sightings(embed(entry.around(entry.text)))
    (sighting,) = found[entry.call]
    assert sighting.content == entry.content == content_digest(result)
    assert sighting.side == "both"


@LAW
@given(text=st.text(max_size=40), result=st.text(max_size=10))
def test_without_its_receipt_a_result_is_as_the_tool_gave_it(text: str, result: str) -> None:
    entry = issue(Ledger(), "add", {}, result, result, True)
    assert strip_receipts(f"{text}{entry.around(entry.text)}{text}") == f"{text}{result}{text}"


@LAW
@given(arguments=ARGUMENTS, data=st.data())
def test_a_call_is_recognised_by_its_arguments_in_any_order(arguments: dict[str, object], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(arguments.items()))))
    assert call_digest("add", shuffled) == call_digest("add", arguments)
    assert call_digest("subtract", arguments) != call_digest("add", arguments)
    assert call_digest("add", arguments | {"one more": 1}) != call_digest("add", arguments)
    assert call_digest("add", {"a": {2, 1}}) == call_digest("add", {"a": {1, 2}}) != call_digest("add", {"a": float("nan")})


@LAW
@given(plan=bench.plans())
def test_receipts_are_unique_within_any_plan(plan: Plan) -> None:
    trial = bench.Bench(plan)
    assert len({truth.call for truth in trial.oracle.values()}) == len(trial.oracle)


@LAW
@given(plan=bench.plans(), data=st.data())
def test_a_planned_call_is_known_iff_its_receipt_and_those_of_its_dependencies_are_shown(plan: Plan, data: st.DataObject) -> None:
    trial = bench.Bench(plan)
    results = trial.results()
    shown = data.draw(st.sets(st.sampled_from(sorted(results)))) if results else set()
    view = trial.view(*(results[name] for name in shown))
    expected: set[str] = set()
    for call in plan.calls:
        expected |= {call.id} if call.id in shown and plan.dependencies[call.id] <= expected else set()
    assert (set(view.results), view.misled, view.stuck) == (expected, False, False)


@LAW
@given(plan=bench.plans())
def test_results_whose_receipts_are_cut_away_or_are_another_trial_s_are_not_known(plan: Plan) -> None:
    trial, other = bench.Bench(plan), bench.Bench(plan)
    results, demonstration = trial.results(), other.results()
    cut = [text[1:-1] for text in results.values()]
    assert not trial.view(*cut, *map(strip_receipts, results.values()), trial.expected).results
    assert not bench.Bench(plan).view(*demonstration.values()).results


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


@pytest.mark.parametrize("name", ["c1", "c2", "c3"])
def test_a_lie_is_believed_and_what_depends_on_it_comes_out_wrong(name: str) -> None:
    trial = bench.Bench(bench.chain(3))
    values: dict[str, int] = {}
    for planned in trial.plan.calls:
        ref = planned.arguments["a"]
        arguments = {"a": values[ref.call] if isinstance(ref, Ref) else ref, "b": planned.arguments["b"]}
        values[planned.id] = arguments["a"] + arguments["b"] + (100 if planned.id == name else 0)
        value = values[planned.id]
        issue(trial.tunnel.ledger, "add", arguments, str(value), value, True)
    view = trial.view(*(entry.around(entry.text) for entry in trial.tunnel.ledger.issued))
    assert view.results.keys() == {"c1", "c2", "c3"}
    assert view.misled
    assert view.values["c3"] == 122


def test_a_later_true_result_takes_the_place_of_a_lie() -> None:
    trial = bench.Bench(bench.chain(3))
    lie = issue(trial.tunnel.ledger, "add", {"a": 1, "b": 1}, "3", 3, True)
    believed = issue(trial.tunnel.ledger, "add", {"a": 3, "b": 10}, "13", 13, True)
    assert trial.view(lie.around(lie.text), believed.around(believed.text)).values == {"c1": 3, "c2": 13}
    truth = issue(trial.tunnel.ledger, "add", {"a": 1, "b": 1}, "2", 2, True)
    now = trial.view(lie.around(lie.text), believed.around(believed.text), truth.around(truth.text))
    assert now.values == {"c1": 2}  # what was made of the lie is no call of the plan
    assert not now.misled


LYING = Profile(name="one", notices=0.0, rates={"tool.lies": 1.0}, clears=Clears(never=1))


@pytest.mark.parametrize("answer", [7, "seven", [1, 2], (1, 2), {"n": 7}, True])
def test_a_lie_makes_a_stated_answer_wrong_too(answer: object) -> None:
    plan = Plan((bench.planned("c1", "add", a=1, b=2),), answer)
    honest, lied = bench.Bench(plan), bench.Bench(plan, LYING)
    assert run_sync(honest.run()) == honest.expected
    assert run_sync(lied.run()) not in (lied.expected, None)


def conversation(order: list[int], ledger: Ledger, ids: list[str] | None = None) -> list[Message]:
    """A reply with as many calls as results; result `order[i]` is given for call i."""
    names = ids or [f"id {place}" for place in range(len(order))]
    entries = [issue(ledger, "put", {"n": place}, f"put {place}", place, True) for place in range(len(order))]
    calls = tuple(NativeCall(name, "put", f'{{"n": {place}}}') for place, name in enumerate(names))
    given_for = zip(names, order, strict=True)
    results = [Message("tool", f"it says {entries[place].around(entries[place].text)}", call_id=name) for name, place in given_for]
    return [Message("user", "q"), Message("assistant", "", calls), *results]


@given(st.integers(1, 6).flatmap(lambda count: st.permutations(range(count))))
def test_a_result_is_right_iff_it_is_given_for_its_own_call(order):
    ledger = Ledger()
    messages = conversation(list(order), ledger)
    found = list(paired_results(messages))
    assert len(found) == (len(order) if len(order) > 1 else 0)
    assert [one.is_right for one in found] == [place == result for place, result in enumerate(order)][: len(found)]


@given(st.integers(2, 6).flatmap(lambda count: st.permutations(range(count))))
def test_a_model_takes_a_result_for_that_of_the_call_that_it_is_given_for(order):
    ledger = Ledger()
    taken = believed(conversation(list(order), ledger), ledger)
    for place, result in enumerate(order):
        (sighting,) = sightings(taken[2 + place].content)[call_digest("put", {"n": place})]
        assert sighting.text == f"put {result}"
        entry = ledger.find(call_digest("put", {"n": place}), sighting.content)
        assert entry is not None
        assert entry.value == result
    assert all(one.is_right for one in paired_results(taken))
    assert believed(taken, ledger) is taken
    issued = len(ledger.issued)
    believed(conversation(list(order), ledger), ledger)  # seen again, a result is no new one
    assert len(ledger.issued) == issued + len(order)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(lambda order: len(set(order)) < 4))
def test_results_of_which_one_is_given_twice_are_taken_for_none_but_their_own(order):
    ledger = Ledger()
    messages = conversation(order, ledger)
    assert believed(messages, ledger) == messages
