"""A changed default of a loop's own step limit: a comparison sets its own, so no trial tests it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import arm_of, failing, task
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.gate import Baseline, headline, judge, to_junit, to_markdown
from whichloop.experiments.gate.changes.unseen import lower_defaults
from whichloop.experiments.gate.data.baseline import bless, read_baseline, write_baseline
from whichloop.experiments.gate.output.brief import rows
from whichloop.experiments.gate.output.github import github_annotations
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.loops.bare import Bare
from whichloop.runs.config import CompareConfig
from whichloop.runs.registry import limits_by_default

SAID = "its default max_steps is 4, was 10, and no trial tests it, since a comparison sets its own limit"


def limited(found: Any, steps: int) -> Any:
    """Return the run as one whose loops have this default limit."""
    arms = tuple(arm.model_copy(update={"own_limits": {"max_steps": steps}}) for arm in found.manifest.arms)
    return replace(found, manifest=found.manifest.model_copy(update={"arms": arms}))


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_default_below_the_limit_that_the_comparison_gave_is_told(wind, default, given_limit):
    """Once for a loop, however many arms it has; a default that is as large, or larger, stops no trial earlier."""
    found = limited(wind, default).manifest
    arms = tuple(arm.model_copy(update={"configuration": f"Loop(max_steps={given_limit}, other='x')"}) for arm in found.arms)
    said = lower_defaults(found.model_copy(update={"arms": arms}))
    assert len(said) == (2 if default < given_limit else 0)
    if said:
        assert said[0].startswith(f"bare: its default max_steps is {default}, and the comparison gave it {given_limit}, ")
        assert said[0].endswith(f"compare and bless bare(max_steps={default})")


def test_a_limit_that_no_configuration_tells_is_taken_for_the_comparison_s(wind):
    found = limited(wind, 1).manifest
    unread = found.model_copy(update={"arms": tuple(arm.model_copy(update={"configuration": "<no text>"}) for arm in found.arms)})
    assert f"the comparison gave it {found.suite.max_tool_steps}, " in lower_defaults(unread)[0]


@pytest.fixture
def of_ten(wind) -> Baseline:
    return bless(limited(wind, 10))


def test_the_same_trials_under_another_default_limit_are_undecided(wind, of_ten):
    judged = judge(limited(wind, 4), of_ten)
    assert judged.outcome == "undecided"
    assert headline(judged) == f"untested limit: {SAID}"
    assert further_lines(judged) == ["Gate it as bare(max_steps=4).", "Gate it as finish(max_steps=4)."]
    assert f'message="untested limit: {SAID}; gate it as bare(max_steps=4)"' in to_junit(judged)
    assert all(arm.limit_alone and arm.identical for arm in judged.arms)
    data = judged.to_json()
    assert (data["outcome"], data["word"]) == ("undecided", "untested limit"), "a program reads on what it read before"
    assert {row[-1] for row in rows(judged, short=False)[1:]} == {"untested limit"}
    assert to_markdown(judged).startswith("## Gate: untested limit")
    assert judged.bless
    assert f"{judged.bless} # if the new limit is meant" in paragraphs(judged)
    tested, compared, _ = next_steps(judged)
    assert tested.say == "No trial ran under the new default limit, which fails until it is tested or blessed; this gate tests it:"
    words = shlex.split(tested.commands[0])
    assert [loop for flag, loop in pairwise(words) if flag == "--loop"] == ["bare(max_steps=4)", "finish(max_steps=4)"]
    assert compared.say.endswith("under which the baseline ran; this, to the old default:")
    words = shlex.split(compared.commands[0])
    assert words[:2] == ["whichloop", "compare"]
    limits = [f"{loop}(max_steps={steps})" for loop in ("bare", "finish") for steps in (10, 4)]
    assert [loop for flag, loop in pairwise(words) if flag == "--loop"] == limits
    assert not any("neither harm" in said or "number of tasks" in said for said in paragraphs(judged))
    assert github_annotations(judged)[0].startswith(f"::error title=whichloop gate%3A untested limit::{SAID}")
    assert github_annotations(judged, "pass")[0].startswith("::notice ")
    assert [judged.undecided_as(asked) for asked in ("undecided", "fail", "pass")] == ["fail", "fail", "pass"]
    assert "<failure" in to_junit(judged)
    assert "<failure" not in to_junit(judged, "pass")


def test_the_same_limit_and_one_that_is_not_known_change_nothing(wind, of_ten, baseline):
    for found, blessed in ((limited(wind, 10), of_ten), (wind, of_ten), (limited(wind, 4), baseline)):
        assert judge(found, blessed).outcome == "identical"


def test_a_regression_stays_one_and_says_it_too(altered, of_ten):
    judged = judge(limited(altered(failing(*(task(number) for number in range(1, 9)))), 4), of_ten)
    assert judged.outcome == "regression"
    assert headline(judged).startswith("regression: 8 task-arm pairs worse (other 8); bare/clean in accuracy")
    assert f"{SAID[0].upper()}{SAID[1:]}." in further_lines(judged)
    assert not arm_of(judged, "bare/clean").limit_alone


def test_a_baseline_keeps_the_limits_where_there_are_some(tmp_path, of_ten, baseline):
    for blessed in (of_ten, baseline):
        write_baseline(tmp_path / "b.json", blessed)
        assert read_baseline(tmp_path / "b.json") == blessed
        assert ("own_limits" in (tmp_path / "b.json").read_text()) == (blessed is of_ten)


def own(found: Any, configuration: str, **options: Any) -> Any:
    """Return the run as one of a loop of the user's own that is set so."""
    changes = {"loop": "my_loop:Mine", "configuration": configuration, "options": options, "own_limits": {"max_steps": 10}}
    arms = tuple(arm.model_copy(update=changes) for arm in found.manifest.arms)
    return replace(found, manifest=found.manifest.model_copy(update={"arms": arms}))


def test_an_edited_default_of_an_own_loop_is_told_with_both_values(wind, tmp_path):
    key = "sk-proj-0123456789abcdef0123"
    was = bless(own(wind, f"Mine(on_bad='show', window=None, prompt={'x' * 90!r}, max_steps=12, key={key!r}, _kept=1)"))
    write_baseline(tmp_path / "b.json", was)
    assert key not in (tmp_path / "b.json").read_text()
    (defaults,) = {str(arm.defaults) for arm in was.arms.values()}
    assert defaults.startswith("{'on_bad': 'show', 'window': 'None', 'prompt': 'xxxxxxxxxxxxxxxxxxxxxxxx… (")
    assert "max_steps" not in defaults
    now = own(wind, f"Mine(on_bad='end', window=None, prompt={'x' * 91!r}, max_steps=14, key={key!r}, _kept=2, new=True)")
    judged = judge(now, read_baseline(tmp_path / "b.json"))
    (told,) = [note for note in (*judged.notes, *judged.details) if note.startswith("my_loop:Mine: ")]
    assert told.startswith("my_loop:Mine: on_bad is end by default now, show in the baseline; prompt is xxx")
    assert told.count("by default now") == 2
    typed = judge(own(wind, "Mine(on_bad='end')", on_bad="end"), was)
    assert "my_loop:Mine: on_bad is end now, show by default in the baseline." in (*typed.notes, *typed.details)


def test_a_run_records_the_limits_of_loops_that_are_not_built_in_and_that_nobody_typed(tmp_path):
    own = "whichloop.loops.bare:Bare"
    config = CompareConfig(
        runs=tmp_path, mlflow=False, loops=("bare", own, f"{own}(max_steps=5)"), suite="arithmetic(size=2)", profiles=("clean",)
    )
    limits = {arm.loop + str(arm.options): arm.own_limits for arm in prepare(config).manifest.arms}
    assert limits == {"bare{}": {}, own + "{}": {"max_steps": Bare().max_steps}, own + "{'max_steps': 5}": {}}


def test_a_limit_is_the_option_that_a_step_limit_sets():
    assert limits_by_default(Bare(), "bare") == {"max_steps": Bare().max_steps}


def test_what_stood_in_the_place_of_a_default_is_told(wind, of_ten):
    """A limit that is typed is held to the one that the comparison set for the baseline, and not to the default there."""
    arms = tuple(
        arm.model_copy(update={"options": {**arm.options, "max_steps": 12}, "own_limits": {}}) for arm in wind.manifest.arms
    )
    judged = judge(replace(wind, manifest=wind.manifest.model_copy(update={"arms": arms})), of_ten)
    told = "max_steps is 12 now, the comparison's own limit (the default is 10) in the baseline."
    assert f"bare: {told}" in (*judged.notes, *judged.details)
