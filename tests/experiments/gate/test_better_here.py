"""A loop that only gained on the baseline's tasks, or only lost, the command that blesses it, and changed code behind the tasks."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from tests.experiments.gate.conftest import ALL, arm_of, changed_suite, failing, task
from whichloop.experiments.gate import Baseline, Incomparable, bless, headline, judge, text
from whichloop.experiments.gate.output.github import github_annotations
from whichloop.experiments.gate.output.junit import to_junit
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record
from whichloop.runs.store.files import RunError

# --- better on these tasks ---


@pytest.fixture
def poorer(altered) -> Baseline:
    """A baseline of other code, whose first loop failed one task."""
    return of_other_code(bless(altered(failing(task(1)))))


def of_other_code(found: Baseline) -> Baseline:
    return found.model_copy(update={"arms": {name: arm.model_copy(update={"code": "0" * 64}) for name, arm in found.arms.items()}})


def test_a_loop_that_gained_and_lost_nothing_is_better_here(wind, poorer, tmp_path):
    judged = judge(wind, poorer, path=tmp_path / "b.json")
    assert judged.outcome == "better here"
    line = arm_of(judged, "bare/clean").lines[0]
    low, high = line.effect.low, line.effect.high
    assert headline(judged).startswith(
        "better here: 1 of 12 tasks better, none worse (bare/clean); of other tasks this says nothing "
        f"(between {low:+.3f} and {high:+.3f})"
    )
    assert judged.bless == shlex.join(["whichloop", "bless", str(wind.folder), "-o", str(tmp_path / "b.json")])
    assert f"{judged.bless} # to hold later changes to this run" in paragraphs(judged)
    assert github_annotations(judged)[0].startswith("::notice title=whichloop gate%3A better here::1 of 12 tasks better")
    assert b"<failure" not in to_junit(judged).encode()
    assert judged.to_json()["bless"] == judged.bless


def test_it_is_so_within_the_margins_of_what_it_takes_alone(altered, poorer):
    """A few more tokens in one task are within their margin, thirty times as many in one are not."""

    def of_outcome(factor: int) -> str:
        def dearer(record: Record) -> Record:
            dear = record.arm == "bare/clean" and record.task == task(2)
            return replace(record, input_tokens=record.input_tokens * factor) if dear else record

        return judge(altered(dearer), poorer, metrics={"tokens": 0.2}).outcome

    assert [of_outcome(2), of_outcome(30)] == ["better here", "undecided"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(failing(task(2)), "another task is lost", marks=pytest.mark.slow),
        (lambda r: replace(r, stop="max_steps") if r.task == task(2) else r, "another trial ends more gravely"),
    ],
)
def test_a_gain_makes_up_for_no_loss(altered, poorer, change, why):
    assert judge(altered(change), poorer).outcome == "undecided", why


def test_a_loss_under_another_seed_alone_is_laid_to_the_seed(altered, baseline):
    lost = altered(failing(*ALL[:8]))
    judged = judge(lost, baseline.model_copy(update={"seed": 5}))
    assert judged.outcome == "regression"
    assert headline(judged).startswith("regression: only the seed is another (0, not 5), which is the likely cause")
    few = judge(altered(failing(task(1))), baseline.model_copy(update={"seed": 5}))
    assert headline(few).startswith("undecided: only the seed is another (0, not 5)")
    assert judged.bless == ""
    other = {name: arm.model_copy(update={"code": "0" * 64}) for name, arm in baseline.arms.items()}
    changed = judge(lost, baseline.model_copy(update={"seed": 5, "arms": other}))
    assert (changed.outcome, changed.lead, changed.bless != "") == ("regression", "", True)


def test_a_gain_by_chance_is_none(altered, poorer, wind, fresh):
    """The same loop does otherwise only if it throws dice; another seed and a real model are other draws."""
    same = bless(altered(failing(task(1))))
    assert judge(wind, same).outcome == "undecided"
    sampled = {name: arm.model_copy(update={"model": "openai/m"}) for name, arm in poorer.arms.items()}
    assert judge(wind, poorer.model_copy(update={"arms": sampled})).outcome == "undecided"
    assert judge(wind, poorer.model_copy(update={"seed": 5})).outcome == "undecided"
    assert judge(wind, changed_suite(poorer, code="f" * 64)).outcome == "undecided"


def test_a_regression_names_the_command_that_blesses_it_and_a_pass_does_not(altered, baseline):
    lost = judge(altered(failing(*ALL[:8])), baseline)
    assert paragraphs(lost)[-2:] == [
        "Fix the loop, or bless the run if the loss is meant:",
        f"whichloop bless {lost.run} -o FILE",
    ]
    assert judge(altered(), baseline).bless == judge(altered(failing(task(1))), baseline).bless == ""


def test_a_loop_that_crashes_in_every_trial_is_a_regression_that_nobody_can_bless(altered, baseline):
    def crashing(record: Record) -> Record:
        if not record.arm.startswith("bare/"):
            return record
        return replace(record, stop="crashed", reason="RuntimeError: boom", scores={"accuracy": 0.0}, calls={})

    found = altered(crashing)
    judged = judge(found, baseline)
    assert (judged.outcome, judged.reasons, judged.bless) == ("regression", (), "")
    assert headline(judged).startswith("regression: 48 trials crash now (RuntimeError: boom), such as bare/clean/")
    alone = baseline.model_copy(update={"arms": {name: arm for name, arm in baseline.arms.items() if name.startswith("bare/")}})
    assert headline(judge(found, alone)).startswith(
        "regression: every trial crashes now (RuntimeError: boom); bare/clean in accuracy -1.000"
    )
    with pytest.raises(RunError, match="every trial crashed"):
        bless(found)


# --- worse on these tasks ---


@pytest.fixture
def other_code(baseline) -> Baseline:
    """The run as a baseline, of loops whose code was another."""
    return of_other_code(baseline)


def test_a_loop_that_lost_and_gained_nothing_is_worse_here(altered, other_code, tmp_path):
    judged = judge(altered(failing(task(1), task(2))), other_code, path=tmp_path / "b.json")
    assert judged.outcome == "worse here"
    assert re.fullmatch(r"worse here: 2 tasks lost, none gained in bare/clean( \([a-z ]+ \d(, [a-z ]+ \d)*\))?", headline(judged))
    said = paragraphs(judged)
    first = next(n for n, line in enumerate(said) if line.startswith("Worse here: the loop's change lost these tasks; "))
    assert said[-1] == "--on-worse-here pass lets it through all the same."
    fix = said.index("Fix the loop, or bless the run if the loss is meant:")
    assert said[fix + 1] == judged.bless
    assert first < fix < next(n for n, line in enumerate(said) if line.startswith("A baseline of "))
    assert not any("A baseline of " in line for line in text(judged).split("\n")), "no size is asked for where nothing is open"
    assert github_annotations(judged)[0].startswith("::error title=whichloop gate%3A worse here::2 tasks lost, none gained")
    assert github_annotations(judged, "undecided", "pass")[0].startswith("::notice ")
    assert '<failure message="worse here: 2 tasks lost, none gained' in to_junit(judged)
    assert "<failure" not in to_junit(judged, "undecided", "pass")
    assert (judged.held_as("fail"), judged.held_as("pass")) == ("worse here", "pass")


def test_an_accepted_loss_leaves_what_else_is_undecided(altered, other_code):
    def change(record: Record) -> Record:
        dear = record.arm == "finish/clean" and record.task == task(2)
        return replace(failing(task(1))(record), input_tokens=record.input_tokens * (30 if dear else 1))

    judged = judge(altered(change), other_code, metrics={"tokens": 0.1})
    assert (judged.outcome, judged.held_as("pass")) == ("worse here", "undecided")
    assert github_annotations(judged, "undecided", "pass")[0].startswith("::warning ")
    assert paragraphs(judged)[-1] == "--on-worse-here pass and --on-undecided pass let it through all the same."


def test_a_loss_that_the_margin_bears_passes_and_says_that_it_is_one(altered, other_code):
    judged = judge(altered(failing(task(1))), other_code, metrics={"accuracy": 0.4})
    assert judged.outcome == "pass"
    assert headline(judged).startswith("pass: worse here, but within the margin: 1 task lost, none gained")
    assert arm_of(judged, "bare/clean").lines[0].lost


def test_a_loss_beside_a_gain_elsewhere_names_its_arm(altered):
    was = of_other_code(bless(altered(failing(task(1), arm="finish/clean"))))
    judged = judge(altered(failing(task(2))), was)
    assert headline(judged).startswith("worse here: 1 task lost, none gained in bare/clean")


def test_a_loss_by_chance_is_undecided(altered, other_code, baseline):
    """The blessed loop does otherwise only if it throws dice; another seed, a real model and other tools leave the cause open."""
    lost = altered(failing(task(1)))
    assert judge(lost, baseline).outcome == "undecided"
    sampled = {name: arm.model_copy(update={"model": "openai/m"}) for name, arm in other_code.arms.items()}
    assert judge(lost, other_code.model_copy(update={"arms": sampled})).outcome == "undecided"
    assert judge(lost, other_code.model_copy(update={"seed": 5})).outcome == "undecided"
    assert judge(lost, changed_suite(other_code, code="f" * 64)).outcome == "undecided"


# --- code of the suite ---


def with_files(found: Any, now: dict[str, str], loops: dict[str, str] | None = None) -> Any:
    """A run or a baseline whose suite is made of these files."""
    code = "".join(now.values()) * 32
    if isinstance(found, Baseline):
        return changed_suite(found, code=code, files=now)
    manifest = found.manifest
    suite = manifest.suite.model_copy(update={"code": code, "files": now})
    arms = tuple(arm.model_copy(update={"loop": (loops or {}).get(arm.loop, arm.loop)}) for arm in manifest.arms)
    return replace(found, manifest=manifest.model_copy(update={"suite": suite, "arms": arms}))


def test_a_changed_tool_is_refused_by_its_file(wind, baseline):
    was = with_files(baseline, {"loop_tools.py": "a", "same.py": "s"})
    found = with_files(wind, {"loop_tools.py": "b", "same.py": "s"})
    for common in (False, True):
        with pytest.raises(Incomparable, match=r"loop_tools\.py changed since the baseline; tools or scorers") as said:
            judge(found, was, common=common)
        assert "same.py" not in str(said.value)


def with_loop_files(found: Any, digest: str) -> Any:
    """The run or the baseline with a file that its loops are made of."""
    own = {"code": digest * 64, "files": {"my_loop.py": digest}}
    if isinstance(found, Baseline):
        return found.model_copy(update={"arms": {name: arm.model_copy(update=own) for name, arm in found.arms.items()}})
    arms = tuple(arm.model_copy(update=own) for arm in found.manifest.arms)
    return replace(found, manifest=found.manifest.model_copy(update={"arms": arms}))


@pytest.mark.parametrize("now", ["a", "b"])
def test_where_tools_changed_the_loop_as_it_was_is_what_git_has_of_it(wind, baseline, now):
    was = with_loop_files(with_files(baseline, {"loop_tools.py": "a"}), "a")
    found = with_loop_files(with_files(wind, {"loop_tools.py": "b"}), now)
    with pytest.raises(Incomparable) as said:
        judge(found, was)
    cure = str(said.value).partition("the loop is not judged; ")[2]
    if now == "a":
        assert cure == "bless a run of the loop, which has not changed"
    else:
        assert cure.startswith("git stash push -- my_loop.py ")
        assert cure.endswith("; bless a run of the loop as it was, with loop_tools.py as it is now")


def test_files_of_the_loop_that_changed_nothing_are_named(wind, baseline):
    said = headline(judge(with_loop_files(wind, "b"), with_loop_files(baseline, "a")))
    assert said == "identical: behaviour unchanged in all 96 trials, though my_loop.py changed"
    assert headline(judge(with_loop_files(wind, "a"), with_loop_files(baseline, "a"))) == said.partition(", though")[0]


def test_a_file_that_holds_tools_and_loop_leads_what_is_held_against_the_loop(altered, baseline):
    """Nobody can tell which of the two changed, so it is judged, and said first."""
    loops = {"bare": "my_agent.loops:Bare"}
    was = with_files(baseline, {"my_agent/tools.py": "a"})
    lost = judge(with_files(altered(failing(*ALL[:8])), {"my_agent/tools.py": "b"}, loops), was)
    first = "My_agent/tools.py changed since the baseline, so tools or scorers may be the cause"
    assert further_lines(lost)[0].startswith(first)
    same = judge(with_files(altered(), {"my_agent/tools.py": "b"}, loops), was)
    assert headline(same).startswith("identical: behaviour unchanged")
    assert same.notes[0] == "Changed since the baseline: my_agent/tools.py; tools and scorers may have, too."
