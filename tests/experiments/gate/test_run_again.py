"""Trials that are run once more: whether it was chance that a blessed loop did otherwise, and whether a trial hangs or was slow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from tests.experiments.gate.conftest import ALL, arm_of, failing, task
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.gate import bless, github_annotations, headline, judge, text, to_junit
from whichloop.experiments.gate.case import case_of
from whichloop.experiments.gate.commands import Rules
from whichloop.experiments.gate.ended_run import MAX_DIFFERING, doubtful, run_doubtful_again
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig

ARM = "bare/clean"
RULES = Rules({"accuracy": 0.02}, 0.05, common=False)
SLOW = "no end, and no request or call for 10 s"
STUCK = "it let nothing else run for 11.0 s, and was interrupted at my_loop.py:14"


def doubtful_of(found, baseline) -> list[tuple[str, str, int]]:
    return list(doubtful(case_of(found, baseline, RULES, None)))


def of(found, keys) -> list[Record]:
    return [record for record in found.records if record.key in keys]


def ending(reason: str, *names: str):
    def change(record: Record) -> Record:
        there = record.arm == ARM and record.task in names and record.repeat == 0
        return replace(record, stop="timeout", reason=reason, scores={"accuracy": 0.0}) if there else record

    return change


def test_a_blessed_loop_that_does_otherwise_again_is_changed_by_something_else(altered, baseline):
    found = altered(failing(*ALL[:2]))
    keys = doubtful_of(found, baseline)
    assert [key[:2] for key in keys] == [(ARM, name) for name in ALL[:2] for _ in range(2)]
    judged = judge(found, baseline, path=Path("b.json"), again=of(found, keys))
    assert judged.outcome == "worse here"
    assert headline(judged).startswith("worse here: 2 tasks lost, none gained")
    said = text(judged)
    assert "It is not chance: 4 trials were run again and came out the same. Something else than the loop's code changed" in said
    assert "Find what else changed, or bless the run if the loss is meant:" in said
    assert "A baseline of" not in said, "more tasks would not tell"
    assert judge(found, baseline).outcome == "undecided", "what was not run again may be chance"


def test_a_loop_that_throws_dice_stays_undecided(wind, altered, baseline):
    found = altered(failing(*ALL[:2]))
    keys = doubtful_of(found, baseline)
    judged = judge(found, baseline, again=[*of(found, keys[:1]), *of(wind, keys[1:])])
    assert judged.outcome == "undecided"
    assert any("3 of 4 trials that ran again came out otherwise once more" in note for note in judged.notes)


def test_a_few_trials_are_run_again_the_lost_ones_first(altered, baseline):
    def change(record: Record) -> Record:
        return replace(failing(*ALL[8:])(record), input_tokens=2 * record.input_tokens)

    keys = doubtful_of(altered(change), baseline)
    assert [arm for arm, _, _ in keys].count(ARM) == MAX_DIFFERING
    assert {name for arm, name, _ in keys if arm == ARM} <= set(ALL[8:])


def test_why_trials_run_again_and_what_a_first_ctrl_c_waits_for_are_told_while_trials_run_again(altered, baseline, tmp_path):
    """These trials do not count as trials of the run, whose progress they leave alone."""
    ended, told = altered(failing(*ALL[:2])), Mock()
    experiment = prepare(CompareConfig(**{**ended.manifest.config, "runs": tmp_path / "runs", "mlflow": False}))

    def interrupted(asked, progress) -> str:
        progress.finished(ended.records[0])
        progress.interrupted("5 trials that are under way end first; Ctrl-C again ends the run at once")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_doubtful_again(experiment, ended, told, baseline, RULES, interrupted)
    why = "4 doubtful trials run once more before the run is judged: chance or a slow machine may have made them what they are"
    assert told.mock_calls == [
        call.noted(why),
        call.interrupted("5 trials that are under way end first; Ctrl-C again ends the run at once"),
    ]


def test_a_changed_loop_and_one_that_does_the_same_are_not_run_again(wind, altered, baseline):
    assert doubtful_of(wind, baseline) == []
    other = {name: arm.model_copy(update={"code": "0" * 64}) for name, arm in baseline.arms.items()}
    changed = baseline.model_copy(update={"arms": other})
    assert doubtful_of(altered(failing(*ALL[:2])), changed) == []


# --- one trial that hangs ---


@pytest.mark.parametrize("margin", [0.02, 0.9])
def test_a_trial_that_was_interrupted_is_a_regression_whatever_the_margin_is(altered, baseline, margin):
    found = altered(ending(STUCK, task(3)))
    assert (ARM, task(3), 0) not in doubtful_of(found, baseline), "it is sure"
    judged = judge(found, baseline, metrics={"accuracy": margin}, path=Path("b.json"))
    assert headline(judged).startswith(f"regression: 1 trial hangs now ({STUCK})")
    assert arm_of(judged, ARM).hang_alone
    assert f"{ARM}: 1 trial hangs now" in text(judged)
    assert f"{ARM}: a trial that hangs, where the baseline has none, is a regression, whatever" in "".join(paragraphs(judged))
    assert f"whichloop show {found.folder} {ARM}/{task(3)}/0" in text(judged)
    assert f'<failure message="regression: 1 trial hangs now ({STUCK})' in to_junit(judged)
    assert any(line.startswith(f"::error title={ARM}%3A 1 of 24 trials hangs now") for line in github_annotations(judged))


def test_the_line_where_it_hangs_is_marked(altered, baseline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_loop.py").write_text("")
    first = github_annotations(judge(altered(ending(STUCK, task(3))), baseline))[1]
    assert first.startswith(f"::error file=my_loop.py,line=14,title={ARM}%3A 1 of 24 trials hangs now")


def test_a_trial_that_may_have_been_slow_counts_once_it_hangs_again(wind, altered, baseline):
    found = altered(ending(SLOW, task(3)))
    keys = doubtful_of(found, baseline)
    assert (ARM, task(3), 0) in keys
    assert judge(found, baseline, again=of(found, keys)).outcome == "regression"
    assert judge(found, baseline, again=of(wind, keys)).outcome == "undecided"


def test_an_arm_that_hung_in_the_baseline_may_hang_again(altered, baseline):
    was = altered(ending(STUCK, task(1)))
    judged = judge(altered(ending(STUCK, task(2))), bless(was))
    assert judged.outcome == "undecided"
    assert not any(change.hangs for change in judged.stops)
