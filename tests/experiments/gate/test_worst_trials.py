"""The metric that lost most stands first, with its meaning, its worst trial, why that is so, and both sides to look at."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import ALL, TASKS, failing
from whichloop.checks.loop.scaffold import new_loop
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, bless, github_annotations, headline, judge, text, to_junit, to_markdown
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.next_steps import to_json
from whichloop.experiments.gate.output.sentences import further_lines, likewise
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.gate import Bounds, GateLine
from whichloop.metrics.measures import meaning_of, measures
from whichloop.metrics.record import Record

ASK = "                reply = await model.complete(request)\n"
CALL = "            seen = await tools.call(move.calls[0])"
MARGINS = {"accuracy": 0.02, "tokens": 0.1, "steps": 0.1, "lm_calls": 0.1, "calls_doubled": 0.02}

AMOUNTS = st.floats(0.0, 5.0)
LINES = st.builds(
    lambda metric, change, margin, gain: GateLine(
        "finish/clean", metric, 1.0, 1.0, Bounds(change + (metric == "tokens") * 1.0 if not gain else -change, 0.0, 9.0), margin,
        12, 12, 0.01, 0.01, 0.5, "regression", True,
    ),
    st.sampled_from(["accuracy", "tokens", "calls_doubled"]),
    st.floats(-0.5, 0.9),
    st.sampled_from([0.0, 0.01, 0.02, 0.1, 0.5]),
    st.booleans(),
)  # fmt: skip


@given(LINES)
def test_a_loss_of_less_than_one_margin_is_one_within_it(line):
    assert line.loss_in_margins >= 0
    if line.margin and abs(line.loss_in_margins - 1) > 1e-9:
        assert line.is_within == (line.loss_in_margins < 1)


@given(st.lists(LINES, max_size=6))
def test_the_weightiest_line_is_accuracy_beyond_its_margin_or_the_one_that_is_farthest_past_it(lines):
    ordered = sorted(lines, key=lambda line: line.weight)
    for first, second in pairwise(ordered):
        assert first.is_within <= second.is_within, "what is past its margin stands first"
        if first.is_within == second.is_within and "accuracy" not in (first.metric, second.metric):
            assert first.loss_in_margins >= second.loss_in_margins
    beyond = [line for line in lines if line.metric == "accuracy" and not line.is_within]
    assert not beyond or ordered[0].metric == "accuracy"


@given(LINES, st.floats(0.1, 10))
def test_the_unit_of_a_loss_is_its_own_margin(line, times):
    """A loss and a margin that are both so many times as large weigh the same."""
    no_change = 1.0 if line.is_ratio else 0.0
    stretched = replace(
        line, margin=line.margin * times, effect=replace(line.effect, value=no_change + (line.effect.value - no_change) * times)
    )
    assert stretched.loss_in_margins == pytest.approx(line.loss_in_margins, rel=1e-6, abs=1e-9)


def test_every_measure_has_a_meaning_of_one_clause():
    for name in measures():
        meaning = meaning_of(name)
        assert meaning
        assert not meaning.endswith(".")
        assert meaning[:2].isupper() or meaning[0].islower()


# --- the worst trial, of records that were made up ---


def dearer(tokens: dict[str, int], arm: str = "finish/clean") -> Callable[[Record], Record]:
    """So many more input tokens in the second trial of these tasks of an arm."""

    def change(record: Record) -> Record:
        more = tokens.get(record.task, 0) if (record.arm, record.repeat) == (arm, 1) else 0
        return replace(record, input_tokens=record.input_tokens + more)

    return change


@settings(max_examples=cases(6))
@given(st.lists(st.integers(0, 100_000), min_size=TASKS, max_size=TASKS))
def test_the_worst_trial_is_the_one_with_the_largest_difference(wind, baseline, more):
    added = dict(zip(ALL, more, strict=True))
    found = replace(wind, records=tuple(map(dearer(added), wind.records)))
    judged = judge(found, baseline, metrics={"tokens": 0.1})
    told = {(worst.arm, worst.metric): worst for worst in judged.worst}
    line = next(line for line in judged.lines if (line.arm, line.metric) == ("finish/clean", "tokens"))
    assert (("finish/clean", "tokens") in told) == (line.outcome in ("regression", "undecided") and any(more))
    if worst := told.get(("finish/clean", "tokens")):
        assert worst.now - worst.was == max(more) == added[worst.task]
        assert worst.repeat == 1


@pytest.mark.parametrize("more", [30, 1])
def test_calls_that_are_longer_by_little_are_told_where_nothing_else_is(wind, baseline, more):
    found = replace(wind, records=tuple(map(dearer({ALL[0]: more}), wind.records)))
    (worst,) = judge(found, baseline, metrics={"tokens": 0.000_001}).worst
    told = re.fullmatch(r"the same \d+ model calls: longer prompts \(([\d,.]+) tokens a call, not ([\d,.]+)\)", worst.cause)
    assert told is not None
    now, before = (float(number.replace(",", "")) for number in told.groups())
    assert now > before
    assert now.is_integer() == (more == 30)


def test_without_counterparts_it_is_a_trial_of_the_task_whose_mean_got_most_worse(altered, baseline):
    judged = judge(altered(dearer(dict.fromkeys(ALL, 90_000) | {ALL[3]: 99_000}), seed=1), baseline, metrics={"tokens": 0.1})
    (worst,) = judged.worst
    assert (worst.task, worst.repeat, worst.now - worst.was) == (ALL[3], 1, 49_500)
    assert (worst.cause, worst.blessed_command) == ("", "")
    assert f"the task finish/clean/{ALL[3]}, " in "".join(further_lines(judged))


def test_of_accuracy_no_trial_is_told_twice(altered, baseline):
    """Its lost tasks are told with their causes."""
    judged = judge(altered(failing(*ALL)), baseline)
    assert (judged.outcome, judged.worst) == ("regression", ())


# --- why, of loops that were changed ---


@pytest.fixture(scope="module")
def changed(fresh, tmp_path_factory) -> Iterator[Callable[..., tuple[Results, Baseline]]]:
    """Makes a run of a first loop with one text in the place of another, once for each, and the baseline of the loop as it was."""
    folder = tmp_path_factory.mktemp("worse")
    made = new_loop("spends", folder)
    source = made.loop.read_text()
    sys.path.insert(0, str(folder))
    asked = {"loops": (made.target,), "profiles": ("flaky-tools",)}
    first = fresh(**asked)
    blessed, runs = bless(first), first.folder.parent

    @cache
    def make(was: str, now: str) -> tuple[Results, Baseline]:
        assert source.count(was) == 1
        made.loop.write_text(source.replace(was, now))
        sys.modules.pop("spends", None)
        run = fresh(**asked)
        moved = runs / run.folder.name
        shutil.copytree(run.folder, moved)
        return replace(run, folder=moved), blessed

    yield make
    sys.path.remove(str(folder))


LONGER = ("*listed])", "*listed * 3])")
MORE_MESSAGES = ("(*opening, *messages),", "(*opening, *messages[:1], *messages),")
ASKED_TWICE = (ASK, ASK + ASK)
FORGETS = (CALL, f"{CALL}\n            if step % 2 == 0:\n                messages.pop()\n                continue")
CALLED_TWICE = (CALL, f"{CALL}\n{CALL}")


@pytest.mark.parametrize(
    ("change", "metric", "why"),
    [
        (LONGER, "tokens", " model calls: longer prompts ("),
        pytest.param(MORE_MESSAGES, "tokens", " in a request, not ", marks=pytest.mark.slow),
        (ASKED_TWICE, "steps", ": the loop sent the same request again "),
        (CALLED_TWICE, "calls_doubled", " again by itself, though it had given a result"),
    ],
)
def test_a_trial_says_why_it_got_worse(changed, change, metric, why):
    judged = judge(*changed(*change), metrics=MARGINS)
    assert judged.outcome == "regression"
    assert f" in {metric} " in headline(judged, 1), "the metric that lost most"
    worst = next(worst for worst in judged.worst if worst.metric == metric)
    assert why in worst.cause
    assert worst.now > worst.was


def test_calls_that_the_model_makes_again_are_told_as_ones_that_the_blessed_trial_lacks(changed):
    """A loop that forgets a result has its model ask for it again: these calls are not its own."""
    judged = judge(*changed(*FORGETS), metrics=MARGINS)
    (cause,) = [worst.cause for worst in judged.worst if worst.metric == "lm_calls"]
    assert " model calls, not " in cause
    assert " that the blessed trial does not have, " in cause
    assert "by itself" not in cause


def test_both_sides_are_shown_where_the_blessed_run_stands_beside_the_run(changed):
    run, baseline = changed(*LONGER)
    (worst,) = judge(run, baseline, metrics=MARGINS).worst
    name = f"{worst.arm}/{worst.task}/{worst.repeat}"
    assert worst.commands == (
        f"whichloop show {run.folder} {name}",
        f"whichloop show {run.folder.parent / baseline.run} {name} # its counterpart in the blessed run",
    )


@pytest.mark.parametrize("lack", ["the folder", "the name", "the same records"])
def test_without_the_blessed_run_the_baseline_s_numbers_say_what_they_can(changed, lack, tmp_path):
    run, baseline = changed(*LONGER)
    if lack == "the folder":
        shutil.copytree(run.folder, tmp_path / "alone")
        run = replace(run, folder=tmp_path / "alone")
    elif lack == "the name":
        baseline = baseline.model_copy(update={"run": ""})
    else:
        baseline = baseline.model_copy(update={"run": run.folder.name})
    (worst,) = judge(run, baseline, metrics=MARGINS).worst
    assert len(worst.commands) == 1
    assert worst.cause.startswith("the same ")
    assert " tokens a model call, not " in worst.cause
    assert "of which prompts are " in worst.cause


def test_a_baseline_names_no_folder_elsewhere(baseline):
    with pytest.raises(ValueError, match="run"):
        Baseline.model_validate(baseline.model_dump() | {"run": "../elsewhere"})


def test_every_output_says_it_in_the_same_words(changed):
    judged = judge(*changed(*CALLED_TWICE), metrics=MARGINS)
    line = sorted((line for line in judged.lines if line.outcome == "regression"), key=lambda line: line.weight)[0]
    begins = f"Worst in {line.metric} ({meaning_of(line.metric)}): the trial "
    said = next(said for said in further_lines(judged) if said.startswith(begins))
    worst = next(worst for worst in judged.worst if worst.metric == line.metric)
    pages = {
        "a failed test": text(judged),
        "JSON": "\n".join(to_json(judged)["said"]),
        "JUnit": "\n".join(ElementTree.fromstring(to_junit(judged)).itertext()),
        "an annotation": github_annotations(judged)[0].replace("%0A", "\n"),
        "a summary": to_markdown(judged).replace("\\", ""),
    }
    for page in pages.values():
        assert said in page
        for command in worst.commands:
            assert command in page
    assert judged.to_json()["worst_trials"] == [worst.to_json() for worst in judged.worst]
    failure = next(case for case in ElementTree.fromstring(to_junit(judged)).iter("testcase") if case.attrib["name"] == line.metric)
    assert said in "\n".join(failure.itertext())


def test_the_long_form_has_the_worst_trial_of_each_metric_and_none_twice(changed):
    judged = judge(*changed(*ASKED_TWICE), metrics=MARGINS)
    said = "\n".join([*further_lines(judged), *paragraphs(judged)])
    for worst in judged.worst:
        assert said.count(f"Worst in {worst.metric} (") == 1


def test_a_call_made_twice_is_shown_once_and_counted(changed):
    judged = judge(*changed(*CALLED_TWICE), metrics=MARGINS)
    (counted,) = [said for said in further_lines(judged) if said.startswith("The loop made a call of its own in ")]
    assert counted.endswith(" trials, and the blessed one did not.")


def test_lines_beside_the_first_one_have_their_numbers(changed):
    judged = judge(*changed(*ASKED_TWICE), metrics=MARGINS)
    (said,) = [said for said in brief.brief_sentences(judged) if said.startswith("Likewise regression: ")]
    others = sorted((line for line in judged.lines if line.outcome == "regression"), key=lambda line: line.weight)[1:]
    assert len(others) == 2
    assert said == f"Likewise regression: {'; '.join(likewise(others))}."
    assert said.count(f", margin ×1.1, {TASKS} tasks") == 2
    assert said.count(f"{judged.lines[0].arm} in ") == 1, "an arm is named once"
