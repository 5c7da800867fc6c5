"""What a gate says to do next: it follows from what differs, and fits on a screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.gate.conftest import ALL, failing, printed, task
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, GateResult, bless, github_annotations, judge, text, to_junit
from whichloop.experiments.gate.data.advice import Larger
from whichloop.experiments.gate.output.brief import examples
from whichloop.experiments.gate.output.next_steps import let_through, next_steps
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record

FLAKY_ARM = "bare/flaky-tools"
FLAKY = {"loops": ("bare",), "profiles": ("flaky-tools",), "repeats": 2}


@pytest.fixture(scope="module")
def of_bare(ran) -> Results:
    """One loop under one profile."""
    made: Results = ran(**FLAKY)
    return made


@pytest.fixture(scope="module")
def cases(ran, of_bare) -> dict[str, GateResult]:
    """A judgement of each kind."""
    was, other = bless(of_bare), of_other_code(bless(of_bare))
    impatient = ran(**FLAKY | {"loops": ("bare(max_consecutive_errors=1)",)})
    path, (first, second, *_) = Path("b.json"), solved(of_bare)
    return {
        "identical": judge(of_bare, was, path=path),
        "pass": judge(without(of_bare, first), other, path=path, metrics={"accuracy": 0.9}),
        "worse here": judge(ran(**FLAKY | {"loops": ("bare(max_consecutive_errors=2)",)}), was, path=path),
        "regression": judge(impatient, was, path=path, alpha=0.4),
        "seed alone": judge(ran(**FLAKY, seed=5), was, path=path),
        "seed and loop": judge(ran(**FLAKY, seed=5), other, path=path),
        "undecided": judge(without(of_bare, first), of_other_code(bless(without(of_bare, second))), path=path),
    }


def of_other_code(found: Baseline) -> Baseline:
    return found.model_copy(update={"arms": {name: arm.model_copy(update={"code": "0" * 64}) for name, arm in found.arms.items()}})


def without(found: Results, task_id: str) -> Results:
    """The run with a task that was not solved."""
    return replace(found, records=tuple(failing(task_id, arm=FLAKY_ARM)(record) for record in found.records))


def solved(found: Results) -> list[str]:
    """Tasks that each trial solved."""
    lost = {record.task for record in found.records if record.scores["accuracy"] < 1}
    return sorted({record.task for record in found.records} - lost)


def renamed(judged: GateResult, name: str = "mine:Mine/flaky-tools") -> GateResult:
    """The same of a loop with a name as users have them."""
    arms = tuple(replace(arm, arm=name, lines=tuple(replace(line, arm=name) for line in arm.lines)) for arm in judged.arms)
    tasks = tuple(replace(change, arm=name) for change in judged.tasks)
    return replace(judged, arms=arms, tasks=tasks, stops=tuple(replace(change, arm=name) for change in judged.stops))


def test_the_cases_are_what_their_names_say(cases):
    outcomes = {name: judged.outcome for name, judged in cases.items()}
    open_cases = {"seed alone": "undecided", "seed and loop": "undecided"}
    assert outcomes == {name: open_cases.get(name, name) for name in cases}


@pytest.mark.parametrize("name", ["identical", "pass", "worse here", "regression", "seed alone", "seed and loop", "undecided"])
def test_a_gate_takes_fourteen_lines_of_a_narrow_terminal_and_tells_its_example_whole(cases, name):
    lines = printed(renamed(cases[name]), 80)
    assert len(lines) <= 14, "\n".join(lines)
    assert not any(line.endswith("…") for line in lines)
    assert all(len(line) <= 80 or line.startswith("    whichloop ") for line in lines)


@pytest.mark.parametrize("name", ["worse here", "regression"])
def test_a_loss_is_told_by_its_cause_then_a_trial_then_what_to_do_and_no_size(cases, name):
    judged = cases[name]
    lines = printed(judged, 200)
    cause = next(n for n, line in enumerate(lines) if judged.tasks[0].cause is not None and judged.tasks[0].cause in line)
    show = next(n for n, line in enumerate(lines) if line.startswith("    whichloop show "))
    assert cause < show < len(lines) - 2
    assert lines[-2:] == ["Fix the loop, or bless the run if the loss is meant:", f"    {judged.bless}"]
    assert sum(" show " in line for line in lines) == 1
    assert not any("A baseline of" in line or "--repeats" in line for line in lines)


@pytest.mark.parametrize(("name", "by"), [("worse here", "--on-worse-here pass"), ("undecided", "--on-undecided pass")])
def test_what_is_let_through_says_by_what_and_not_that_it_is_to_be_fixed(cases, name, by):
    through = next_steps(let_through(cases[name], "pass", "pass"))
    assert through[0].say.startswith(f"Let through by {by}.")
    assert not any("Fix the loop" in line for step in through for line in step.lines)
    assert let_through(cases[name], "fail", "fail") == cases[name]
    asked = replace(cases[name], advice=replace(cases[name].advice, asker="test"))
    assert 'pass"' in next_steps(let_through(asked, "pass", "pass"))[0].brief


def test_in_a_test_what_is_undecided_names_a_lost_trial_and_the_command_that_shows_it(cases):
    said = text(cases["undecided"])
    lost = next(change for change in cases["undecided"].tasks if change.became == "worse")
    assert f"- {FLAKY_ARM}/{lost.task} worse: " in said
    assert said.count("whichloop show ") == 1


def test_the_trial_that_is_shown_is_one_behind_the_outcome(altered, baseline):
    """Whatever the order of the arms: the other one lost a task, too, which leaves it undecided."""
    for lost, other in (("bare/clean", "finish/clean"), ("finish/clean", "bare/clean")):

        def change(record: Record, lost: str = lost, other: str = other) -> Record:
            return failing(*ALL, arm=lost)(failing(task(1), arm=other)(record))

        judged = judge(altered(change), baseline)
        assert {line.arm for line in judged.lines if line.outcome == "regression"} == {lost}
        assert examples(judged)[0].startswith(f"- {lost}/")


def test_another_seed_alone_leaves_nothing_to_bless_and_leads_back_to_the_baseline_s_own(cases):
    judged = cases["seed alone"]
    back, larger = next_steps(judged)
    assert back.say.startswith(
        "The loop is the one of the baseline, and only the seed is another (5, not 0): there is nothing to bless."
    )
    assert back.commands == (f"whichloop gate --baseline b.json --runs {judged.run.parent}",)
    assert larger.say.startswith("Or a baseline of ")
    assert judged.bless == ""
    assert not any("limit" in line or line.startswith("whichloop bless runs") for line in paragraphs(judged))


def test_another_seed_of_a_changed_loop_leads_to_the_gate_without_chance(cases):
    back, _ = next_steps(cases["seed and loop"])
    assert back.say == (
        "The seed differs from the baseline's (5, not 0): other faults struck. Under the baseline's own seed each trial has its "
        "counterpart, which shows what the change did:"
    )
    assert "--seed" not in back.commands[0]


def test_other_repeats_of_the_same_seed_met_the_same_faults(cases):
    judged = cases["seed and loop"]
    repeats = replace(judged, advice=replace(judged.advice, differs=(("repeats", 1, 3),)))
    back, *_ = next_steps(repeats)
    assert back.say.startswith(
        "The number of repeats differs from the baseline's (1, not 3): tasks are compared by the means of their trials."
    )


def test_what_is_undecided_has_a_size_and_its_three_commands(cases):
    (step,) = next_steps(cases["undecided"])
    assert [command.split(" ")[1] for command in step.commands] == ["compare", "bless", "gate"]
    assert step.say.endswith("Bless with the loop as it was, then gate the changed one:")


@pytest.mark.parametrize("tasks", [940, 0])
@pytest.mark.parametrize(("asker", "way"), [("shell", "--on-undecided pass lets it"), ("test", 'on_undecided="skip" in the test')])
def test_where_too_many_tasks_would_be_needed_one_line_says_what_can_be_done(cases, tasks, asker, way):
    judged, repeats = cases["undecided"], "With 10 repeats of the same tasks, the chance of a decision is about 80 %."
    far = Larger(tasks, 0.8, None, whole=True, repeats=repeats, ran=24, out_of_proportion=True)
    judged = replace(judged, advice=replace(judged.advice, asker=asker, larger=far))
    (step,) = next_steps(judged)
    why = "that takes about 940 tasks" if tasks else "no feasible number of tasks is likely to"
    assert step.say.startswith(
        f"So small a difference cannot be decided by this suite of 24 tasks: {why}. {repeats} A wider margin, "
    )
    assert way in step.say
    assert not step.commands
    said = "\n".join(paragraphs(judged))
    assert said.count(way) == 1
    assert "Add about" not in said
    other_seed = replace(judged, advice=replace(judged.advice, differs=(("seed", 5, 0),)))
    back, *others = next_steps(other_seed)
    assert "other faults struck" in back.say, "the same draws decide it without more tasks"
    assert not any("baseline of" in step.say for step in others)
    assert "\n".join(paragraphs(other_seed)).count(way) == 1
    through = replace(judged, advice=replace(judged.advice, let_through="--on-undecided pass"))
    assert way not in next_steps(through)[-1].say


def test_a_pass_has_at_most_one_step(cases):
    for name in ("identical", "pass"):
        assert len(next_steps(cases[name])) <= 1


@pytest.mark.parametrize("name", ["worse here", "regression", "seed alone", "undecided"])
def test_a_server_is_told_in_short(cases, name):
    judged = cases[name]
    message = github_annotations(judged)[0].split("::", 2)[2].split("%0A")
    assert len(message) <= 5, message
    assert message[-1].endswith(next_steps(judged)[0].brief.replace("%", "%25")[-20:])
    assert "whichloop compare" not in to_junit(judged)


def test_tasks_of_several_arms_are_counted_as_what_they_are(altered, baseline, ran):
    """A task that both profiles lost is two pairs."""
    both = judge(altered(lambda record: failing(task(1), arm=record.arm)(record)), baseline)
    assert both.unit == "task-arm pair"
    assert any(line.startswith("Task-arm pairs: 4 worse") for line in paragraphs(both))
    assert both.to_json()["counted"] == "task-arm pair"


@pytest.mark.parametrize("name", ["worse here", "regression"])
def test_of_imported_results_the_agent_is_to_be_fixed_and_its_new_results_imported(cases, name):
    imported = replace(cases[name], advice=replace(cases[name].advice, imported=True))
    said = " ".join(line for step in next_steps(imported) for line in step.lines)
    assert "Fix the agent and import its new results" in said
    assert "Fix the loop" not in said
