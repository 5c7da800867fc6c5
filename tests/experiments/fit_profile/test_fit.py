"""A profile fitted to a run: rates that were put in come out, what a trace cannot tell stays out, and any file reads back."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.datasets import arithmetic
from loopbench.experiments.fit_profile.decision_points import hint_of, read_course, wire_damage
from loopbench.experiments.fit_profile.fit import (
    SLOW_FROM_S,
    SLOW_TIMES,
    UNTELLABLE,
    Fitted,
    RateEstimate,
    cluster_rate,
    fit,
    fit_run,
    remarks,
    to_toml,
)
from loopbench.metrics.statistics import Interval, wilson
from loopbench.models.faults import spoil
from loopbench.models.profiles import FAULT_KINDS, Abilities, Clears, Profile, load_profile
from loopbench.models.scripted import PROVIDER_FAULTS
from loopbench.protocol import Reply, ToolCall
from loopbench.protocol.names import parse_spec
from loopbench.protocol.wire import native_call
from loopbench.runs.registry import make_loop
from loopbench.runs.schedule import Arm, Trial
from loopbench.runs.store.files import RunError, write_manifest_json
from loopbench.runs.store.journal import Journal
from loopbench.runs.trial.setting import FinishedTrial, TrialContext
from loopbench.runs.trial.trial import run_trial

KNOWN = {
    "wire.malformed": 0.02,
    "wire.truncated": 0.03,
    "wire.fenced": 0.03,
    "wire.empty": 0.02,
    "wire.duplicated": 0.02,
    "decision.unknown_tool": 0.03,
    "decision.missing_argument": 0.03,
    "decision.extra_argument": 0.03,
    "decision.wrong_type": 0.03,
    "decision.repeated_call": 0.04,
    "decision.never_finish": 0.05,
    "decision.no_tool": 0.04,
    "provider.rate_limit": 0.02,
    "provider.timeout": 0.02,
    "provider.dropped": 0.01,
    "tool.raises": 0.04,
    "tool.hangs": 0.03,
    "tool.flaky": 0.03,
}
LOOPS = ("bare", 'bare(decision_format="native")', "react_extract", "finish")


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What loops warn of under faults is no matter here."""
    caplog.set_level(logging.ERROR, "loopbench.loops")


def known(**changes: Any) -> Profile:
    values: dict[str, Any] = {"name": "known", "rates": KNOWN, "clears": Clears(feedback=0.9, after=0.0, never=0.1)}
    return Profile(**(values | changes))


def run(loops: Sequence[str], profile: Profile, *, size: int, seed: int = 0, repeats: int = 2) -> list[FinishedTrial]:
    """Trials of the first arithmetic tasks; in the order of the schedule."""
    suite = arithmetic.load(size=size)
    setting = TrialContext(suite)
    specs = [parse_spec(loop) for loop in loops]
    arms = [Arm(str(spec), spec, make_loop(spec, suite.max_tool_steps), "scripted", profile) for spec in specs]
    trials = [Trial(arm, task, repeat, seed) for repeat in range(repeats) for task in suite.tasks for arm in arms]

    async def all_of_them() -> list[FinishedTrial]:
        return [await run_trial(trial, setting) for trial in trials]

    return asyncio.run(all_of_them())


def traces(done: Sequence[FinishedTrial]) -> list[dict[str, Any]]:
    return [json.loads(item.trace) for item in done]


def fitted_to(done: Sequence[FinishedTrial], **options: Any) -> Fitted:
    return fit(traces(done), timed=False, paired=True, **options)


def holds(found: RateEstimate, rate: float) -> bool:
    return found.interval is not None and found.interval.low - 1e-12 <= rate <= found.interval.high + 1e-12


@pytest.fixture(scope="module", params=LOOPS)
def disturbed(request) -> list[FinishedTrial]:
    """A run under known rates; the same draws meet each loop."""
    return run([request.param], known(), size=40)


# --- the law ---


def test_rates_that_were_put_in_come_out(disturbed):
    found = fitted_to(disturbed)
    missed = [kind for kind, rate in KNOWN.items() if not holds(found.rates[kind], rate)]
    assert len(missed) <= 2, missed  # of 18 intervals at 95 %
    others = {kind: rate.rate for kind, rate in found.rates.items() if kind not in KNOWN and rate.rate}
    assert others == {}


def test_what_is_counted_is_what_was_injected(disturbed):
    """Kind by kind against the records' answer key, which the fit does not see."""
    scheduled = Counter(fault.kind for item in disturbed for fault in item.record.faults)
    found = fitted_to(disturbed)
    for kind in KNOWN:
        slack = 2 + 0.15 * scheduled[kind]
        hidden = kind == "decision.no_tool"  # of a task that only one trial reached, nothing can be said
        native_text = kind in ("wire.malformed", "wire.truncated")  # a plain text that is cut reads as another
        assert found.rates[kind].count <= scheduled[kind] + slack, kind
        assert found.rates[kind].count >= scheduled[kind] - slack - (5 if hidden or native_text else 0), kind


def test_marks_of_injected_faults_are_not_read(disturbed):
    bare = traces(disturbed)
    for trace in bare:
        for event in trace["events"]:
            event.pop("fault", None)
    assert fit(bare) == fit(traces(disturbed))


def test_a_clean_run_fits_a_clean_profile():
    for loop in LOOPS:
        found = fitted_to(run([loop], load_profile("clean"), size=60, repeats=1))
        assert not any((found.profile.rates, found.profile.forget, found.profile.weaknesses)), (loop, found.profile.rates)
        assert all(rate.count == 0 for rate in found.rates.values())
        bound = found.rates["wire.empty"].interval
        assert bound is not None
        assert 0 < bound.high < 0.05


def test_arms_that_meet_the_same_stumbles_are_no_more_data_than_one():
    """Four equal arms: the same rates, and intervals as wide as one arm's."""
    one = fitted_to(run(["bare"], known(), size=40))
    same = [trace | {"arm": f"arm {number}"} for trace in traces(run(["bare"], known(), size=40)) for number in range(4)]
    four = fit(same, timed=False, paired=True)
    for kind in KNOWN:
        alone, pooled = one.rates[kind].interval, four.rates[kind].interval
        assert alone is not None
        assert pooled is not None
        assert pooled.value == pytest.approx(alone.value, abs=1e-9)
        assert pooled.high - pooled.low >= 0.99 * (alone.high - alone.low)


def test_what_clears_a_fault_comes_out():
    for clears in (Clears(feedback=1, after=0, never=0), Clears(feedback=0, after=1, never=0, attempts=2)):
        rates = {"decision.unknown_tool": 0.1, "decision.wrong_type": 0.1, "wire.empty": 0.1}
        found = fitted_to(run(["finish"], known(rates=rates, clears=clears), size=60, repeats=1)).profile.clears
        assert found.feedback == pytest.approx(clears.feedback, abs=0.1)
        assert found.after == pytest.approx(clears.after, abs=0.1)
        assert clears.after == 0 or found.attempts == clears.attempts


def test_the_fitted_profile_makes_a_similar_run():
    before = run(["bare"], known(bluff=0.0), size=60)
    profile = fitted_to(before).profile
    after = run(["bare"], profile, size=60, seed=1)
    right = [sum(item.record.accuracy for item in done) for done in (before, after)]
    assert abs(right[0] - right[1]) <= 0.15 * len(before)
    calls = [sum(item.record.lm_calls for item in done) for done in (before, after)]
    assert abs(calls[0] - calls[1]) <= 0.15 * calls[0]


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_intervals_cover_at_their_level(loop):
    """40 runs: the share of 18 x 40 intervals that hold the rate; 0.95 is nominal, 0.93 what noise of 720 leaves at least."""
    inside = [
        holds(found.rates[kind], rate)
        for seed in range(40)
        for found in [fitted_to(run([loop], known(), size=50, seed=seed))]
        for kind, rate in KNOWN.items()
    ]
    assert sum(inside) / len(inside) >= 0.925


# --- intervals ---


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 50)), min_size=1, max_size=30), st.floats(1, 10))
def test_an_interval_holds_its_rate_and_is_never_empty(shares, effect):
    found = cluster_rate([(share * points, points) for share, points in shares], effect)
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


def test_independent_points_give_wilsons_interval_or_a_wider_one():
    pairs = [(1.0, 10.0)] * 3 + [(0.0, 10.0)] * 27
    found = cluster_rate(pairs)
    assert found is not None
    low, high = wilson(3, 300)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.1)
    assert cluster_rate([]) is None


def test_dependent_points_are_covered_where_wilson_alone_is_not():
    """Rates that differ between tasks (Beta with mean 0.1), 12 points each: simulated coverage of nominal 0.95."""
    random = np.random.default_rng(0)
    clustered, alone = [], []
    for _ in range(400):
        counts = random.binomial(12, random.beta(0.4, 3.6, 60))
        found = cluster_rate([(float(count), 12.0) for count in counts])
        assert found is not None
        clustered.append(found.low <= 0.1 <= found.high)
        low, high = wilson(int(counts.sum()), 720)
        alone.append(low <= 0.1 <= high)
    assert np.mean(clustered) >= 0.92
    assert np.mean(alone) < 0.80


# --- what a raw reply shows ---

ARGUMENTS = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=8), st.integers() | st.text("xyz 01", max_size=9), min_size=1, max_size=4
)
WIRE = tuple(kind for kind in FAULT_KINDS if kind.startswith("wire."))


@given(ARGUMENTS, st.sampled_from(WIRE), st.booleans())
def test_damage_is_told_by_the_reply(arguments, kind, native):
    text = json.dumps({"thought": "Next.", "tool_name": "add", "arguments": arguments})
    clean = Reply("Next.", (native_call(ToolCall("add", arguments)),)) if native else Reply(text)
    assert wire_damage(clean, False) == ""
    assert wire_damage(spoil(kind, clean), True) == kind


@pytest.mark.parametrize(
    ("text", "unreadable", "kind"),
    [
        ("", False, "wire.empty"),
        (" \n", True, "wire.empty"),
        ('```json\n{"a": 1}\n```', False, "wire.fenced"),
        ('{"final_answer": "```\\ncode\\n```"}', False, ""),
        ("[[ ## answer ## ]]\n```python\nx = 1\n```\n[[ ## completed ## ]]", False, ""),
        ("1\n1", False, "wire.duplicated"),
        ("11", False, ""),
        ('{"a": 1}{"a": 1}', True, "wire.duplicated"),
        ("I think the answer is 5.", True, "wire.malformed"),
        ("{'a': 1}", True, "wire.malformed"),
        ("[[ ## next_thought ## ]]\nNext.\n\n[[ ## next_tool_name ## ]]", True, "wire.truncated"),
        ("<output><answer>5</answer>", True, "wire.truncated"),
        ("Thought: Next: add.\nTo", True, "wire.truncated"),
        ('Thought: Next.\nTool: add\nArguments: "a": 1}', True, "wire.malformed"),
    ],
)
def test_damage_by_example(text, unreadable, kind):
    assert wire_damage(Reply(text), unreadable) == kind


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Tool 'add_v2' not found. Available tools: add", "unknown"),
        ("Tool 'divide': missing argument 'b'. Allowed: a: number, b: number", "missing"),
        ("Tool 'divide': unknown argument 'verbose'. Allowed: a: number", "extra"),
        ("Tool 'divide': argument 'b': Input should be a valid number, got {'about': 8}", "type"),
        ("42", ""),
    ],
)
def test_what_a_refusal_says(text, hint):
    assert hint_of(text) == hint


# --- single traces, made by hand ---


def ask(reply: str = "", *, move: Any = None, role: str = "decide", **more: Any) -> dict[str, Any]:
    made = {"event": "ask", "role": role, "same": 0, "messages": [{"role": "user", "content": "Q"}], "tokens": [10, 5]}
    if "error" not in more:
        made["reply"] = reply
    return made | ({"move": move} if move else {}) | more


def calling(tool: str = "add", **arguments: Any) -> dict[str, Any]:
    move = {"move": "act", "thought": "", "calls": [{"name": tool, "arguments": arguments}]}
    return ask(json.dumps({"tool": tool, **arguments}), move=move)


def ran(tool: str = "add", error: str = "", data: str = "7", **arguments: Any) -> dict[str, Any]:
    made = {"event": "tool", "tool": tool, "arguments": arguments, "status": "error" if error else "success", "data": data}
    return made | ({"error_type": error} if error else {})


def answer(value: str = "7") -> dict[str, Any]:
    return ask(json.dumps({"final_answer": value}), move={"move": "answer", "thought": "", "value": value})


def refused(kind: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return ask(error={"kind": kind, "message": message}, **more)


def trace(*events: dict[str, Any], task: str = "t1", repeat: int = 0, **more: Any) -> dict[str, Any]:
    return {"arm": "a", "task": task, "repeat": repeat, "events": list(events), **more}


def counts(*made: Mapping[str, Any], **options: Any) -> dict[str, tuple[float, float]]:
    """Kind → struck and points, of the kinds that struck."""
    rates = fit(made, **options).rates
    return {kind: (found.count, found.points) for kind, found in rates.items() if found.count}


def test_an_attempt_after_a_failure_is_no_new_point():
    again = (refused("provider.rate_limit"), calling(a=1), ran(a=1), answer())
    assert counts(trace(*again)) == {"provider.rate_limit": (1, 2)}
    unreadable = ask("{", wire_error="no JSON")
    assert counts(trace(unreadable, unreadable, calling(a=1), ran(a=1), answer())) == {"wire.truncated": (1, 2)}
    assert counts(trace(calling(a=1), ran(a=1, error="ToolUnavailable"), calling(a=1), ran(a=1), answer())) == {
        "tool.raises": (1, 1)
    }


def test_a_tool_that_fails_is_told_from_a_call_that_cannot_work():
    flaky = [calling(a=1), ran(a=1, error="Busy")] * 2 + [calling(a=1), ran(a=1), answer()]
    assert counts(trace(*flaky)) == {"tool.flaky": (1, 1)}
    hangs = [calling(a=1), ran(a=1, error="TimeoutError"), answer()]
    assert counts(trace(*hangs)) == {"tool.hangs": (1, 1)}
    wrong = [calling(a=1), ran(a=1, error="ZeroDivisionError"), answer()]
    found = fit([trace(*wrong)]).rates["tool.raises"]
    assert found.count == 0
    assert "ZeroDivisionError 1" in found.note
    typed = [calling(a={"about": 1}), ran(a={"about": 1}, error="TypeError"), calling(a=1), ran(a=1), answer()]
    assert counts(trace(*typed)) == {"decision.wrong_type": (1, 1)}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (calling("add_v2", a=1, b=2), "unknown_tool"),
        (calling(a=1), "missing_argument"),
        (calling(a=1, b=2, c=3), "extra_argument"),
        (calling(a=1, b="two"), "wrong_type"),
    ],
)
def test_a_call_that_nobody_ran_is_read_by_those_that_worked(bad, kind):
    good = (calling(a=1, b=2), ran(a=1, b=2), answer())
    assert counts(trace(bad, *good)) == {f"decision.{kind}": (1, 1)}


def test_a_call_made_again_is_a_fault_only_while_its_result_is_shown():
    result = "a result of some length"
    first = (calling(a=1), ran(a=1, data=result))
    shown = {"messages": [{"role": "user", "content": f"You saw: {result}"}]}
    again = calling(a=1)
    ends = counts(trace(*first, again | shown, ran(a=1, data=result), answer()))
    assert ends == {"decision.never_finish": (1, 1)}
    goes_on = counts(trace(*first, again | shown, ran(a=1, data=result), calling(a=2), ran(a=2), answer()))
    assert goes_on == {"decision.repeated_call": (1, 1)}
    assert counts(trace(*first, again, ran(a=1, data=result), answer())) == {}


def test_an_answer_without_a_call_tells_something_only_beside_another_trial():
    silent, other = trace(answer()), trace(calling(a=1), ran(a=1), answer(), repeat=1)
    assert counts(silent) == {}
    assert counts(silent, other) == {"decision.no_tool": (1, 1)}
    assert counts(silent, trace(answer(), repeat=1)) == {}
    assert counts(silent, other | {"repeat": 0}, paired=True) == {}
    assert counts(silent, other, other | {"repeat": 2}, paired=True) == {"decision.no_tool": (1, 3)}


def test_slow_replies_and_the_usual_latency():
    usual = [trace(calling(a=1) | {"seconds": 0.5}, ran(a=1), answer() | {"seconds": 0.5}, task=f"t{n}") for n in range(20)]
    late = 0.5 * SLOW_TIMES + SLOW_FROM_S + 4
    found = fit([*usual, trace(calling(a=1) | {"seconds": late}, ran(a=1), task="late")])
    assert (found.rates["provider.slow"].count, found.rates["provider.slow"].points) == (1, 41)
    assert found.profile.latency_s == pytest.approx(0.5, rel=0.03)
    assert found.profile.slow_s == pytest.approx(late - 0.5, rel=0.03)
    endless = fit([*usual, trace(calling(a=1) | {"seconds": 1e308}, ran(a=1), task="late")])
    assert endless.profile.slow_s == pytest.approx(86_400, rel=0.03)
    untimed = fit(usual, timed=False)
    assert untimed.rates["provider.slow"].interval is None
    assert untimed.profile.latency_s == 0


@pytest.mark.parametrize("fault", PROVIDER_FAULTS)
def test_a_providers_failure_is_told_by_its_kind_and_text(fault):
    kind, _, text = PROVIDER_FAULTS[fault]
    assert counts(trace(refused(f"provider.{kind}", text), calling(a=1), ran(a=1), answer())) == {fault: (1, 2)}


def test_the_clients_own_retries_count():
    assert counts(trace(calling(a=1), ran(a=1), answer(), retries={"rate_limit": 1, "auth": 3})) == {"provider.rate_limit": (1, 3)}


def test_what_the_client_overcame_gives_the_rate_of_an_attempt():
    """Requests tried again until they are answered, each attempt refused with the same chance."""
    draws = np.random.default_rng(0).negative_binomial(2, 0.6, 300)  # refusals before a trial's two answers
    course = (calling(a=1), ran(a=1), answer())
    found = fit([trace(*course, task=f"t{n}", retries={"rate_limit": int(count)}) for n, count in enumerate(draws)])
    assert holds(found.rates["provider.rate_limit"], 0.4)


def test_abilities_are_no_chance():
    forced = refused("provider.refused", "tool_choice is not supported", tool_choice="required")
    long = {"messages": [{"role": "user", "content": "x" * 8_000}]}
    found = fit([trace(calling(a=1), ran(a=1), forced, refused("context_overflow") | long, answer())])
    assert all(rate.count == 0 for rate in found.rates.values())
    assert found.profile.abilities.tool_choice is False
    assert found.profile.abilities.context_tokens is not None
    assert 10 <= found.profile.abilities.context_tokens < 2_020
    accepted = forced | {"tool_choice": "required", "reply": "7", "move": {"move": "answer", "value": "7"}}
    del accepted["error"]
    assert fit([trace(forced, accepted)]).profile.abilities.tool_choice is True


def test_limits_of_a_scripted_run_come_out():
    limited = Profile(name="short", abilities=Abilities(context_tokens=560))
    found = fitted_to(run(["bare"], limited, size=20, repeats=1)).profile
    assert found.abilities.context_tokens == pytest.approx(560, abs=60)
    assert not found.rates


def test_few_points_are_said_and_what_no_trace_tells_stays_out():
    found = fit([trace(calling(a=1), ran(a=1), answer())])
    assert "fewer than 30 points" in found.rates["wire.empty"].note
    for kind in UNTELLABLE:
        assert found.rates[kind].interval is None
        assert "a trace cannot tell" in found.rates[kind].note
        assert f'# "{kind}": a trace cannot tell' in to_toml(found)
    assert (found.profile.forget, found.profile.bluff) == (0, 0)


def test_rates_that_add_up_to_more_than_a_point_holds_are_scaled():
    broken = [trace(refused("provider.timeout"), ask("", wire_error="no JSON", role="answer"), task=f"t{n}") for n in range(9)]
    silent = [trace(refused("provider.server"), role="x", task=f"s{n}") for n in range(9)]
    found = fit([*broken, *silent])
    assert sum(found.profile.rates.values()) <= 1


# --- traces from anywhere ---


def test_traces_are_read_one_by_one():
    alive = 0

    class Counted(dict[str, Any]):
        def __init__(self, data: dict[str, Any]) -> None:
            nonlocal alive
            super().__init__(data)
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def made() -> Iterator[dict[str, Any]]:
        for number in range(50):
            assert alive <= 1
            yield Counted(trace(calling(a=1), ran(a=1), answer(), repeat=number))

    assert fit(made()).trials == 50


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SOUND = trace(
    calling(a=1) | {"seconds": 0.2, "scope": "s", "calls": [{"id": "", "name": "add", "arguments": "{}"}], "tool_choice": "auto"},
    ran(a=1, error="UnknownTool"),
    ask("{", wire_error="no JSON"),
    refused("provider.server"),
    {"event": "note", "kind": "x"},
    answer(),
    retries={"server": 1},
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = data.copy()
    copy[path[0]] = replaced(data[path[0]], path[1:], value)
    return copy


@given(st.sampled_from(list(places(SOUND))), JSON)
def test_a_trace_with_anything_in_it_is_fitted_or_refused_in_one_line(path, value):
    told = ""
    try:
        found = fit([replaced(SOUND, path, value), SOUND])
    except ValueError as error:
        told = str(error)
    if told:
        assert len(told.splitlines()) == 1
        assert told.startswith(("trace ", "no trace"))
    else:
        assert read_back(found) == found.profile


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (trace({"event": "ask"}), "trace a/t1/0: event 1: role: is missing"),
        ({**trace(), "events": [7]}, "event 1: an event must be an object, not number"),
        (trace(answer() | {"same": 3}), "event 1: same: 3 of 0 messages"),
        (trace(ran() | {"status": None}), "event 1: status: cannot be null"),
        (trace(answer() | {"seconds": float("nan")}), "event 1: seconds"),
        (trace(retries={"server": -1}), "retries: must be counts by kind"),
        ({"task": "t"}, "arm: is missing"),
        ([], "no trace but array"),
    ],
)
def test_what_is_no_trace_is_told(bad, said):
    with pytest.raises(ValueError, match="trace") as told:
        read_course(bad)
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("options", "said"), [({"alpha": 0}, "alpha"), ({"alpha": 1.5}, "alpha"), ({"name": "Ä b"}, "name"), ({}, "no traces")]
)
def test_bad_options_and_no_traces_are_told(options, said):
    with pytest.raises(ValueError, match=said):
        fit([], **options)


# --- the file ---


def read_back(fitted: Fitted) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made.toml"
        file.write_text(to_toml(fitted), encoding="utf-8")
        return load_profile(str(file))


UNIT = st.floats(0, 1)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NOTES = st.text(st.characters())


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    rates = draw(st.dictionaries(st.sampled_from(list(FAULT_KINDS)), st.floats(0, 0.03)))
    feedback = draw(UNIT)
    after = draw(st.floats(0, 1 - feedback))
    return Profile(
        name=draw(st.from_regex(r"[a-z0-9][a-z0-9._-]*", fullmatch=True)),
        description=draw(ANY_TEXT),
        rates=rates,
        clears=Clears(feedback=feedback, after=after, never=1 - feedback - after, attempts=draw(st.integers(1, 100))),
        forget=draw(UNIT),
        bluff=draw(UNIT),
        patience=draw(st.integers(1, 100)),
        latency_s=draw(st.floats(0, 86_400)),
        slow_s=draw(st.floats(0, 86_400)),
        abilities=Abilities(context_tokens=draw(st.none() | st.integers(1, 10**9)), tool_choice=draw(st.booleans())),
    )


@st.composite
def estimates(draw: st.DrawFn) -> RateEstimate:
    points = draw(st.floats(0, 1e6))
    interval = draw(st.none() | st.builds(lambda value: Interval(value, value / 2, min(1.0, 2 * value), 7), UNIT))
    return RateEstimate(draw(st.floats(0, points)), points, interval, draw(NOTES))


@given(
    profiles(),
    st.fixed_dictionaries({kind: estimates() for kind in FAULT_KINDS}),
    st.dictionaries(st.sampled_from(["forget", "clears", "rates", "abilities", "context_tokens", "latency_s"]), NOTES),
    st.lists(NOTES, max_size=3),
)
def test_any_fitted_profile_reads_back_from_its_file(profile, rates, notes, arms):
    notes = {"context_tokens": "", **notes} if notes else notes
    fitted = Fitted(profile, rates, 3, 2, tuple(arms), 0.05, notes)
    assert read_back(fitted) == profile
    assert json.loads(json.dumps(fitted.as_dict()))["profile"]["name"] == profile.name


def test_the_file_says_where_its_rates_come_from(disturbed):
    found = fitted_to(disturbed)
    text = to_toml(found)
    assert read_back(found) == found.profile
    said = remarks(text)
    assert set(said) == set(FAULT_KINDS)
    interval = found.rates["tool.raises"].interval
    assert interval is not None
    assert said["tool.raises"].startswith(f"[{interval.low:.4f}, {interval.high:.4f}], {found.rates['tool.raises'].count:g} of")
    assert "at most" in said["provider.server"]


# --- a run directory ---


def written(folder: Path, done: Sequence[FinishedTrial], arms: Mapping[str, tuple[str, str]], **config: Any) -> Path:
    """A run directory; `arms`: name → model and profile."""
    listed = [
        {"arm": name, "loop": name, "options": {}, "model": model, "profile": profile} for name, (model, profile) in arms.items()
    ]
    manifest = {
        "created": "2026-01-01T00:00:00+00:00",
        "config": {"repeats": 1, "alpha": 0.05, "margin": 0.02} | config,
        "seed": 0,
        "versions": {},
        "suite": {"name": "s", "version": "1", "digest": "d", "tasks": 1},
        "profiles": {},
        "arms": listed,
        "packages": {},
        "python": "3.11",
        "platform": "Linux",
    }
    write_manifest_json(folder, manifest)
    with Journal(folder) as journal:
        for item in done:
            journal.append(item.record, item.trace)
    return folder


def test_a_run_is_fitted_by_arm(tmp_path):
    done = run(["bare", "finish"], known(), size=10)
    folder = written(tmp_path, done, {"bare": ("scripted", "known"), "finish": ("scripted", "known")})
    both, one = fit_run(folder), fit_run(folder, arms=["fin"])
    assert (both.trials, both.arms, both.profile.name) == (40, ("bare", "finish"), "fitted-known")
    assert (one.trials, one.arms) == (20, ("finish",))
    of_finish = [item for item in done if item.record.arm == "finish"]
    assert one.rates == fitted_to(of_finish).rates
    with (folder / "trials.jsonl").open("ab") as file:
        file.write(b'{"torn')
    assert fit_run(folder, arms=["finish"]) == one


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "several profiles cannot be pooled (clean, known); choose with --profile or --arm"),
        ({"arms": ["i"]}, "'i' matches 2 arms; this run has bare(in), finish"),
        ({"arms": ["x"]}, "'x' is no arm; this run has bare(in), finish"),
        ({"profile": "stubborn"}, "no such arm"),
        ({"model": "openai/x"}, "no such arm"),
    ],
)
def test_arms_are_not_pooled_silently(tmp_path, options, said):
    folder = written(tmp_path, [], {"bare(in)": ("scripted", "clean"), "finish": ("scripted", "known")})
    with pytest.raises(RunError) as told:
        fit_run(folder, **options)
    assert said in str(told.value)


def test_models_are_not_pooled_and_give_the_profile_its_name(tmp_path):
    done = run(["bare"], known(), size=3, repeats=1)
    folder = written(tmp_path, done, {"bare": ("openai/GPT-4o mini", "clean"), "other": ("scripted", "clean")})
    with pytest.raises(RunError, match=r"several models cannot be pooled .*; choose with --model or --arm"):
        fit_run(folder)
    assert fit_run(folder, arms=["bare"]).profile.name == "gpt-4o-mini"
    assert fit_run(folder, model="openai/GPT-4o mini", name="mine").profile.name == "mine"


@pytest.mark.parametrize(
    ("model", "config", "timed"),
    [
        ("openai/x", {}, True),
        ("openai/x", {"cassette": "rec", "cassette_mode": "record"}, True),
        ("openai/x", {"cassette": "rec", "cassette_mode": None}, False),
        ("openai/x", {"cassette": "rec", "cassette_mode": "replay-or-record"}, False),
        ("scripted", {}, False),
        ("scripted", {"real_time": True}, True),
    ],
)
def test_latency_is_fitted_only_where_it_is_the_models(tmp_path, model, config, timed):
    done = run(["bare"], known(), size=3, repeats=1)
    found = fit_run(written(tmp_path, done, {"bare": (model, "clean")}, **config))
    assert (found.rates["provider.slow"].interval is not None) is timed
    assert ("not measured" in found.notes["latency_s"]) is not timed


def test_a_run_without_traces_or_with_broken_ones_is_told(tmp_path):
    folder = written(tmp_path, [], {"bare": ("scripted", "known")})
    with pytest.raises(RunError, match="no traces"):
        fit_run(folder)
    done = run(["bare"], known(), size=1, repeats=1)[0]
    with Journal(folder) as journal:
        journal.append(done.record, done.trace.replace(b'"role":', b'"roll":', 1))
    with pytest.raises(RunError, match="event 1: role: is missing"):
        fit_run(folder)
    (folder / "trials.jsonl").write_bytes(b"[]\n")
    record = done.record.to_json()
    lines: list[Any] = [[], record | {"arm": []}]
    for line in lines:
        (folder / "trials.jsonl").write_text(json.dumps(line) + "\n")
        with pytest.raises(RunError, match=r"trials\.jsonl:1: no record"):
            fit_run(folder)
