"""Points, and what struck them: single traces made by hand, and traces from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.fit_profile.helpers import (
    answer,
    ask,
    calling,
    counts,
    fit_json,
    fitted_to,
    holds,
    ran,
    read_back,
    refused,
    run,
    trace,
)
from whichloop.experiments.fit_profile.decision_points import read_points
from whichloop.experiments.fit_profile.estimates import SLOW_FROM_S, SLOW_TIMES
from whichloop.metrics.record import MAX_COUNT
from whichloop.metrics.trace import Trace
from whichloop.models.outages import PROVIDER_FAULTS
from whichloop.models.profiles import Abilities, Profile


def test_every_failure_of_a_provider_that_the_scripted_model_plays_is_told_by_its_words():
    for kind, (trouble, _, text) in PROVIDER_FAULTS.items():
        failed = refused(f"provider.{trouble}", text)
        assert counts(trace(failed, calling(a=1), ran(a=1), answer())) == {kind: (1, 2)}


@pytest.mark.parametrize(
    ("said", "level"),
    [("", "nothing"), ("banana", "failed"), ("The reply lacks a closing bracket.", "words"), ("Say which tool.", "failed")],
)
def test_a_retry_is_read_by_what_it_shows_of_the_failure(said: str, level: str) -> None:
    unreadable = ask('{"tool": "add", "left": 1, "ri', wire_error="lacks a closing bracket")
    again = calling(left=1, right=2) | {"same": 1, "messages": [{"role": "user", "content": said}]}
    read = read_points(Trace.from_json(trace(unreadable, again, ran(left=1, right=2), answer())))
    found = read.points[0].retries()
    assert found is not None
    assert not found.failed
    assert found.cure == level


def test_a_text_that_a_tool_returned_is_no_wrong_type_of_the_models_own():
    worked = [calling(a=1), ran(a=1, data="%% noise %%")]
    unlike = [calling(a="%% noise %%"), ran(a="%% noise %%", error="InvalidArguments"), calling(a=2), ran(a=2), answer()]
    assert counts(trace(*worked, *unlike)) == {}
    own = [calling(a="two"), ran(a="two", error="InvalidArguments"), calling(a=2), ran(a=2), answer()]
    assert counts(trace(*worked, *own)) == {"decision.wrong_type": (1, 2)}


def test_a_tool_that_fails_is_told_from_a_call_that_cannot_work():
    flaky = [calling(a=1), ran(a=1, error="Busy")] * 2 + [calling(a=1), ran(a=1), answer()]
    told = counts(trace(*flaky))
    assert told["tool.flaky"] == pytest.approx((1, 1), abs=1e-3)
    assert told["tool.raises"] == pytest.approx((0, 1), abs=1e-3)
    hangs = [calling(a=1), ran(a=1, error="TimeoutError"), answer()]
    assert counts(trace(*hangs)) == {"tool.hangs": (1, 1)}
    wrong = [calling(a=1), ran(a=1, error="ZeroDivisionError"), answer()]
    for kind in ("tool.raises", "tool.flaky"):  # it may have failed by itself or not, so that 0 would be too sure
        found = fit_json([trace(*wrong)]).rates[kind]
        assert (found.count, found.points, found.interval) == (0, 0, None)
        assert found.note.startswith("a trace cannot tell")
    assert fit_json([trace(*wrong)]).basis["never_worked"] == {"ZeroDivisionError": 1}
    typed = [calling(a={"about": 1}), ran(a={"about": 1}, error="TypeError"), calling(a=1), ran(a=1), answer()]
    assert counts(trace(*typed)) == {"decision.wrong_type": (1, 1)}


def test_a_call_that_worked_in_another_trial_of_its_task_failed_by_the_tools_own_failure():
    failed = (calling(a=1), ran(a=1, error="Error"), answer())
    worked = (calling(a=1), ran(a=1), answer())

    def raised(*made):
        rates = fit_json(made).rates
        return rates["tool.raises"].count + rates["tool.flaky"].count

    assert raised(trace(*failed), trace(*worked, repeat=1)) == pytest.approx(1)
    assert raised(trace(*worked), trace(*failed, repeat=1)) == pytest.approx(1)
    assert raised(trace(*failed), trace(*worked, task="t2")) == 0  # where the same call may mean something else
    before = (calling(b=1), ran(b=1))  # the tool may have been in another state
    assert raised(trace(*failed), trace(*before, *worked, repeat=1)) == 0
    assert raised(trace(*before, *failed), trace(*before, *worked, repeat=1)) == pytest.approx(1)


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


def test_slow_replies_and_the_usual_latency():
    usual = [trace(calling(a=1) | {"seconds": 0.5}, ran(a=1), answer() | {"seconds": 0.5}, task=f"t{n}") for n in range(20)]
    late = 0.5 * SLOW_TIMES + SLOW_FROM_S + 4
    found = fit_json([*usual, trace(calling(a=1) | {"seconds": late}, ran(a=1), task="late")])
    assert (found.rates["provider.slow"].count, found.rates["provider.slow"].points) == (1, 41)
    assert found.profile.latency_s == pytest.approx(0.5, rel=0.03)
    assert found.profile.slow_s == pytest.approx(late - 0.5, rel=0.03)
    endless = fit_json([*usual, trace(calling(a=1) | {"seconds": MAX_COUNT}, ran(a=1), task="late")])
    assert endless.profile.slow_s == pytest.approx(86_400, rel=0.03)
    untimed = fit_json(usual, timed=False)
    assert untimed.rates["provider.slow"].interval is None
    assert untimed.profile.latency_s == 0


def test_rates_that_add_up_to_more_than_a_point_holds_are_scaled():
    broken = [trace(refused("provider.timeout"), ask("", wire_error="no JSON", role="answer"), task=f"t{n}") for n in range(9)]
    silent = [trace(refused("provider.server"), role="x", task=f"s{n}") for n in range(9)]
    found = fit_json([*broken, *silent])
    assert sum(found.profile.rates.values()) <= 1


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
        found = fit_json([replaced(SOUND, path, value), SOUND])
    except ValueError as error:
        told = str(error)
    if told:
        assert len(told.splitlines()) == 1
        assert "trace" in told
    else:
        assert read_back(found) == found.profile


def test_the_clients_own_retries_count_and_what_it_overcame_gives_the_rate_of_an_attempt():
    course = (calling(a=1), ran(a=1), answer())
    assert counts(trace(*course, retries={"rate_limit": 1, "auth": 3})) == {"provider.rate_limit": (1, 3)}
    draws = np.random.default_rng(0).negative_binomial(2, 0.6, 300)  # refusals before a trial's two answers
    found = fit_json([trace(*course, task=f"t{n}", retries={"rate_limit": int(count)}) for n, count in enumerate(draws)])
    assert holds(found.rates["provider.rate_limit"], 0.4)


def test_abilities_are_no_chance_and_limits_of_a_scripted_run_come_out():
    forced = refused("provider.refused", "tool_choice is not supported", tool_choice="required")
    long = {"messages": [{"role": "user", "content": "x" * 8_000}]}
    found = fit_json([trace(calling(a=1), ran(a=1), forced, refused("context_overflow") | long, answer())])
    assert all(rate.count == 0 for rate in found.rates.values())
    assert found.profile.abilities.tool_choice is False
    assert found.profile.abilities.context_tokens is not None
    assert 10 <= found.profile.abilities.context_tokens < 2_020
    accepted = forced | {"tool_choice": "required", "reply": "7", "move": {"move": "answer", "value": "7"}}
    del accepted["error"]
    assert fit_json([trace(forced, accepted)]).profile.abilities.tool_choice is True
    limited = Profile(name="short", abilities=Abilities(context_tokens=560))
    scripted = fitted_to(run(["bare"], limited, size=20, repeats=1)).profile
    assert scripted.abilities.context_tokens == pytest.approx(560, abs=60)
    assert not scripted.rates
