"""What the gate says, where names and details are whatever a model, a tool or a file gave: no text leaves its place."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.gate import (
    GateArm,
    GateResult,
    Side,
    TaskChange,
    github_annotations,
    headline,
    text,
    to_junit,
    to_markdown,
)
from whichloop.experiments.gate.data.findings import WorstTrial
from whichloop.experiments.gate.data.outcome import AlteredTrials, Outcome, StopChange
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.line_words import beside_losses
from whichloop.experiments.gate.output.text import MAX_TASKS, STOP_COLUMNS, other_stops, paragraphs, shown_margin, table, task_lines
from whichloop.metrics.gate import Bounds, GateLine, Held, LineOutcome, decide
from whichloop.metrics.outlook import Chance, Outlook
from whichloop.metrics.summary import TaskValues

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e\ud800-\udfff]")
HOSTILE = [
    "::error title=forged::all is well",
    " ::set-output name=x::y",
    "a\n::warning::b",
    "x\r\n::add-mask::y",
    "##[error]forged",
    "x ##vso[task.complete]y",
    "100%, 50: %0A%0D",
    "]]></failure><failure/>&lt;",
    "\x00\x1b[31m\x08\ufffe\ud800\x85\u2028",
    "| a | b |\n|---|\n# head <img src=x onerror=alert(1)> `code` [a](javascript:b)",
]
WORDS = st.sampled_from(HOSTILE) | st.text(max_size=20) | st.sampled_from(["finish/clean", "t1"])
OUTCOMES: tuple[LineOutcome, ...] = (
    "identical", "pass", "unchanged", "better here", "within here", "worse here", "regression", "undecided",
)  # fmt: skip
STOPS = st.just("crashed") | WORDS
NUMBER = st.sampled_from([0.0, 0.02, 0.5, 1.0, 1.25])
OUTLOOK = Outlook(1, Chance(900, 900, 1.5, 0.5), Chance(2_000, 2_000, None, 0.8))


@st.composite
def lines(draw: st.DrawFn, arm: str) -> GateLine:
    metric = draw(st.sampled_from(["accuracy", "steps", "cost_usd"]))
    low = -float("inf") if metric == "accuracy" else 0.0
    bounds = draw(st.sampled_from([Bounds(1.0, 0.9, 1.1), Bounds(1.0, low, float("inf"))]))
    outcome = draw(st.sampled_from(OUTCOMES))
    outlook = draw(st.sampled_from([None, OUTLOOK]))
    figures = (draw(NUMBER), draw(NUMBER), bounds, draw(NUMBER), 12, draw(st.sampled_from([3, 12])), 0.5, 0.0004, 0.2)
    return GateLine(arm, metric, *figures, outcome, draw(st.booleans()), outlook if outcome == "undecided" else None)


@st.composite
def sides(draw: st.DrawFn) -> Side:
    trials = draw(st.lists(st.tuples(st.none() | WORDS, st.none() | st.sampled_from([0.0, 1.0])), min_size=1, max_size=3))
    return Side(tuple(stop for stop, _ in trials), tuple(score for _, score in trials))


@st.composite
def judgements(draw: st.DrawFn) -> GateResult:
    names = draw(st.lists(WORDS, min_size=1, max_size=2, unique=True))
    arms = tuple(GateArm(name, draw(WORDS), False, 12, 12, tuple(draw(st.lists(lines(name), max_size=2)))) for name in names)
    change = st.builds(
        TaskChange,
        st.sampled_from(names),
        WORDS,
        sides(),
        sides(),
        st.integers(0, 3),
        st.none() | st.integers(1, 9),
        st.none() | st.integers(1, 9),
        st.sampled_from([None, "parse", "other"]),
        WORDS,
        WORDS,
    )
    other_stop = st.builds(
        StopChange, st.sampled_from(names), WORDS, st.integers(0, 3), WORDS, STOPS, st.booleans(), st.booleans(), WORDS, WORDS
    )
    metrics = st.sampled_from(["steps", "cost_usd"])
    worst = st.builds(WorstTrial, st.sampled_from(names), metrics, WORDS, st.integers(0, 3), NUMBER, NUMBER, WORDS, WORDS, WORDS)
    return GateResult(
        draw(st.sampled_from([outcome for outcome in get_args(Outcome) if outcome != "blessed"])),
        tuple(draw(st.lists(WORDS, max_size=2))),
        arms,
        tuple(draw(st.lists(change, max_size=3))),
        draw(st.integers(0, 3)),
        tuple(draw(st.lists(WORDS, max_size=2))),
        Path("runs/r"),
        None,
        0.05,
        draw(st.booleans()),
        stops=tuple(draw(st.lists(other_stop, max_size=4))),
        worst=tuple(draw(st.lists(worst, max_size=3))),
        bless=draw(st.sampled_from(["", "whichloop bless runs/r -o FILE"])),
        lead=draw(WORDS),
    )


UNDECIDED = st.sampled_from(["pass", "fail", "undecided"])


def safe_lines(said: str) -> list[str]:
    assert not CONTROL.search(said)
    return said.split("\n")


def no_command(line: str) -> bool:
    """GitHub's runner strips white space before it looks for `::`, and finds `##[` anywhere."""
    return not line.strip().startswith("::") and "##[" not in line and "##vso[" not in line


# --- laws ---


@given(judgements())
def test_plain_text_holds_no_command_and_no_control_character(judged):
    assert all(map(no_command, safe_lines(text(judged))))
    for said in (
        headline(judged),
        *paragraphs(judged),
        *task_lines(judged),
        *other_stops(judged.stops),
        *(cell for row in table(judged).texts for cell in row),
    ):
        assert "\n" not in said
        assert no_command(said)
    assert headline(judged).startswith(f"{judged.outcome}:")


@given(judgements(), UNDECIDED)
def test_annotations_are_one_command_a_line_and_no_text_forges_another(judged, on_undecided):
    found = github_annotations(judged, on_undecided)
    for line in found:
        assert safe_lines(line) == [line]
        command = re.fullmatch(r"::(error|warning|notice) title=([^:,\n\r]*)::([^\n\r]*)", line)
        assert command is not None
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", command[2] + command[3])
    assert len(found) <= 10


@given(judgements(), UNDECIDED)
def test_junit_is_xml_with_a_case_per_metric(judged, on_undecided):
    made = to_junit(judged, on_undecided)
    root = ElementTree.fromstring(made)
    suites = root.findall("testsuite")
    assert len(suites) == len(judged.arms) + bool(judged.reasons)
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for kind, counted in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[counted]) == sum(case.find(kind) is not None for case in cases)
    regressions = [line for line in judged.lines if line.outcome in ("regression", "worse here")]
    undecided = [line for line in judged.lines if line.outcome == "undecided"]
    assert len(root.findall(".//failure")) == len(regressions) + len(undecided) * (on_undecided == "fail")
    assert len(root.findall(".//skipped")) == len(undecided) * (on_undecided == "undecided")


@given(judgements())
def test_markdown_tables_keep_their_columns_and_hold_no_markup(judged):
    made = to_markdown(judged)
    rows = [line for line in safe_lines(made) if line.startswith("|")]
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in (len(table(judged).columns) + 1, 9, len(STOP_COLUMNS) + 1)
    assert not re.search(r"(?<!\\)[<>]", made)
    assert not re.search(r"(?<!\\)\]\(", made)
    assert sum(line.startswith("#") for line in made.split("\n")) == 1 + bool(judged.lines) + bool(judged.tasks) + bool(
        beside_losses(judged)
    )


@given(judgements())
def test_json_is_plain_whatever_stands_in_it(judged):
    made = judged.to_json()
    assert json.loads(json.dumps(made, ensure_ascii=True, allow_nan=False)) == made


# --- examples ---

LINE = GateLine(
    "finish/clean", "accuracy", 1.0, 0.85, Bounds(-0.15, -0.21, -0.09), 0.02, 120, 120, 0.0, 0.0, 1.0, "regression", True
)
CHANGE = TaskChange(
    "finish/clean",
    "t1",
    Side(("finished", "finished"), (1.0, 1.0)),
    Side(("finished", "max_steps"), (1.0, 0.0)),
    1,
    3,
    3,
    "parse",
    "the reply could not be read",
    "whichloop show runs/r finish/clean/t1/1",
)
ARM = GateArm("finish/clean", "finish/clean", False, 240, 240, (LINE,))
JUDGED = GateResult(
    "regression", (), (ARM,), (CHANGE,), 4, ("a note",), Path("runs/r"), Path("b.json"), 0.05, True, ("steps", "tokens")
)


def undecided() -> GateResult:
    line = replace(LINE, outcome="undecided", worse=False, outlook=OUTLOOK)
    return replace(JUDGED, outcome="undecided", arms=(replace(ARM, lines=(line,)),))


def test_the_words():
    assert text(JUDGED).split("\n") == [
        "regression: 1 task worse (parse 1); finish/clean in accuracy -0.150 [-0.210, -0.090], margin -0.02",
        "loop/profile  metric  was → is  change  outcome",
        "finish/clean  accuracy  1.000 → 0.850  -0.150 [-0.210, -0.090]  regression",
        "Tasks: 1 worse (parse 1), 0 better.",
        "- finish/clean/t1 worse: 1.00 finished 2 -> 0.50 finished 1, max_steps 1; parse at step 3: the reply could not be read",
        "    whichloop show runs/r finish/clean/t1/1",
        "margins: accuracy -0.02; brackets: one-sided 95 % bounds",
        "a note",
        "Fix the loop; a run in which every trial crashes or hangs cannot be blessed.",
    ]


def test_a_long_name_of_an_arm_is_shortened_but_in_commands():
    arm = f"finish(words={'x' * 350})/clean"
    long = replace(JUDGED, arms=(replace(ARM, lines=(replace(LINE, arm=arm),)),), tasks=(replace(CHANGE, arm=arm),), notes=())
    said = [line for line in text(long).split("\n") if "finish(words=" in line]
    assert len(said) == 3  # the first line, its row and its task
    assert all(line.count("x") < 60 and "…" in line for line in said)


def test_the_brackets_of_several_rows_are_said_to_be_corrected_toward_better_alone():
    two = replace(JUDGED, arms=(replace(ARM, lines=(LINE, replace(LINE, metric="steps"))),))
    told = "brackets: one-sided bounds, toward worse at 95 %, toward better corrected for the 2 metrics that are judged (Holm)"
    assert told in text(two)
    other = replace(ARM, arm="bare/clean", lines=(replace(LINE, arm="bare/clean"),))
    assert "corrected for the 3 pairs of arm and metric that are judged (Holm)" in text(replace(two, arms=(*two.arms, other)))
    assert table(two).title == f"Run against baseline; {told}"


def test_the_example_of_a_loss_is_of_an_arm_that_regressed():
    other = replace(ARM, arm="other", lines=(replace(LINE, arm="other", outcome="pass"),))
    lost = replace(ARM, arm="lost", lines=(replace(LINE, arm="lost", outcome="regression"),))
    tasks = [replace(CHANGE, arm=arm, task=f"t{n}", cause="parse") for n, arm in enumerate(("other", "other"))]
    tasks += [replace(CHANGE, arm="lost", task="t2", cause=None), replace(CHANGE, arm="lost", task="t3", cause="tool argument")]
    several = replace(JUDGED, outcome="regression", arms=(other, lost), tasks=tuple(tasks), stops=())
    assert brief.examples(several)[0].startswith("- lost/t3 worse: ")
    alone = replace(several, tasks=tuple(tasks[:2]))
    assert brief.examples(alone)[0].startswith("- other/t0 worse: ")


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 12))
def test_each_arm_has_its_share_of_the_tasks_that_are_shown(arms, most):
    changes = tuple(replace(CHANGE, arm=arm, task=f"t{n}") for n, arm in enumerate(arms))
    lines = task_lines(replace(JUDGED, tasks=changes), most)
    shown = [line.split("/")[0].removeprefix("- ") for line in lines if " worse: " in line]
    places = [int(line.split(" ")[1].split("/")[1][1:]) for line in lines if " worse: " in line]
    assert places == sorted(places)
    assert len(shown) == min(most, len(arms))
    left = {arm: arms.count(arm) - shown.count(arm) for arm in arms}
    for arm in left:
        assert left[arm] == 0 or shown.count(arm) >= max(shown.count(other) for other in left) - 1
    assert len(shown) == len(arms) or lines[-1] == f"- and {len(arms) - most} more; --json has all"


def test_the_words_of_ratios_and_of_what_it_takes():
    steps = replace(
        LINE, metric="steps", baseline=4.0, run=5.0, effect=Bounds(1.25, 1.1, float("inf")), margin=0.1, units=20, typical=1.02
    )
    row = table(replace(JUDGED, arms=(replace(ARM, lines=(steps,)),))).rows[0]
    assert row[2:8] == ("4.00", "5.00", "×1.25 [1.10, –]", "×1.02", "×1.1", "120 in 20 clusters")
    assert paragraphs(undecided())[0] == (
        "finish/clean in accuracy: with 900 tasks × 1 repeat (900 trials, about $1.50), the chance that this gate decides is about "
        "50 %; with 2,000 tasks (2,000 trials), about 80 %."
    )


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (replace(JUDGED, outcome="identical"), "identical: behaviour unchanged in all 240 trials"),
        (replace(JUDGED, outcome="invalid", reasons=("a", "b"), arms=()), "invalid: a; b"),
        (
            replace(JUDGED, outcome="pass", arms=(replace(ARM, lines=(replace(LINE, outcome="pass"),)),)),
            "pass: worse, but within the margin: finish/clean in accuracy -0.150 [-0.210, -0.090]",
        ),
        (
            replace(JUDGED, arms=(replace(ARM, lines=(replace(LINE, effect=Bounds(-0.015, -0.03, -0.001)),)),)),
            "regression: 1 task worse (parse 1); finish/clean in accuracy -0.015 [-0.030, -0.001], margin -0.02",
        ),
        (
            replace(JUDGED, outcome="pass", arms=(replace(ARM, lines=(replace(LINE, outcome="pass", worse=False),) * 2),)),
            "pass: within the margins",
        ),
        (
            replace(JUDGED, outcome="pass", arms=(replace(ARM, lines=(replace(LINE, outcome="pass", worse=False, better=True),)),)),
            "pass: better: finish/clean in accuracy -0.150 [-0.210, -0.090]",
        ),
        (
            replace(JUDGED, outcome="unchanged", arms=(replace(ARM, lines=(replace(LINE, outcome="unchanged", worse=False),)),)),
            "unchanged: every trial scored and ended as in the baseline; of other tasks this says nothing",
        ),
        (
            replace(
                JUDGED,
                outcome="unchanged",
                arms=(
                    replace(ARM, lines=(replace(LINE, outcome="pass", worse=False, better=True),)),
                    replace(ARM, arm="b", lines=(replace(LINE, arm="b", outcome="unchanged", worse=False),)),
                ),
            ),
            "unchanged: every trial of b scored and ended as in the baseline; of other tasks this says nothing",
        ),
    ],
)
def test_headlines(judged, said):
    assert headline(judged) == said


def test_annotations():
    first, task = github_annotations(JUDGED)
    assert first.startswith("::error title=whichloop gate%3A regression::1 task worse (parse 1); finish/clean in accuracy -0.150")
    assert "-0.02%0ATasks: 1 worse" in first
    assert task.startswith("::warning title=finish/clean%3A 1 task worse by parse::finish/clean/t1 worse: 1.00 finished 2 -> 0.50")
    assert [line.split(" ")[0] for line in github_annotations(undecided())] == ["::warning", "::warning"]
    assert [line.split(" ")[0] for line in github_annotations(undecided(), "fail")] == ["::error", "::warning"]
    assert [line.split(" ")[0] for line in github_annotations(undecided(), "pass")] == ["::notice"]
    assert [line.split(" ")[0] for line in github_annotations(replace(JUDGED, outcome="pass"))] == ["::notice"]


def test_junit():
    root = ElementTree.fromstring(to_junit(JUDGED))
    case = root.find("testsuite/testcase")
    assert case is not None
    assert (case.attrib["classname"], case.attrib["name"]) == ("finish/clean", "accuracy")
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "regression: 1 task worse (parse 1); -0.150 [-0.210, -0.090], margin -0.02, 120 tasks"
    assert failure.text is not None
    assert "whichloop show runs/r finish/clean/t1/1" in failure.text
    assert ElementTree.fromstring(to_junit(replace(JUDGED, reasons=("a",), arms=()))).find(".//error") is not None


def test_each_metric_is_skipped_with_its_own_reason():
    """What tasks were lost to says nothing of tokens, and calls that were made once more say it of the calls."""
    tokens = replace(LINE, metric="tokens", baseline=2114.0, run=3045.0, effect=Bounds(1.44, 0.9, 2.3), margin=0.1)
    doubled = replace(LINE, metric="calls_doubled", baseline=0.0, run=0.05, effect=Bounds(0.05, 0.01, 0.1))
    lines = tuple(replace(line, outcome="undecided", outlook=OUTLOOK) for line in (LINE, tokens, doubled))
    added = AlteredTrials("finish/clean", "added call", 2, 240, "finish/clean/t1/1", 3, "it asked again", "whichloop show it")
    root = ElementTree.fromstring(to_junit(replace(undecided(), arms=(replace(ARM, lines=lines),), altered=(added,))))
    bodies = {case.attrib["name"]: str(case.findtext("skipped")) for case in root.iter("testcase")}
    assert list(bodies) == ["accuracy", "tokens", "calls_doubled"]
    for metric, body in bodies.items():
        assert body.startswith(f"{metric} ")
        assert f"finish/clean in {metric}: with 900 tasks" in body
        assert ("by parse" in body) == (metric == "accuracy")
    assert bodies["tokens"].startswith("tokens 2114 → 3045: ×1.44 [0.90, 2.30], margin ×1.1, 120 tasks\n")
    assert bodies["calls_doubled"].endswith("t1/1 at step 3: it asked again\nwhichloop show it")
    assert "asked again" not in bodies["tokens"]


def test_many_tasks_are_cut_for_people():
    many = replace(JUDGED, tasks=(CHANGE,) * (MAX_TASKS + 5))
    assert task_lines(many)[-1] == "- and 5 more; --json has all"
    assert len(many.to_json()["tasks"]) == MAX_TASKS + 5
    assert len(github_annotations(many)) == 2


def test_lost_tasks_are_told_by_their_causes():
    """One cause that loses many tasks is one warning, and does not hide another one."""
    by_parse = [replace(CHANGE, task=f"t{number}") for number in range(MAX_TASKS + 5)]
    other = replace(CHANGE, task="u", cause="termination")
    judged = replace(JUDGED, tasks=(*by_parse, other))
    _, first, second = github_annotations(judged)
    assert f"title=finish/clean%3A {MAX_TASKS + 5} tasks worse by parse::" in first
    assert first.endswith(f"likewise: {', '.join(f't{number}' for number in range(1, MAX_TASKS + 1))}, and 4 more")
    assert "title=finish/clean%3A 1 task worse by termination::finish/clean/u worse" in second
    root = ElementTree.fromstring(to_junit(judged))
    failure, output = root.find(".//failure"), root.find(".//system-out")
    assert failure is not None
    assert output is not None
    assert str(failure.text).count("whichloop show") == 2
    assert str(output.text).count("whichloop show") == MAX_TASKS + 6


def test_what_is_undecided_says_what_helps_and_offers_no_margin_after_the_fact():
    found = undecided()
    assert paragraphs(found)[1] == "Where it is undecided, this run shows neither harm nor that there is none."
    assert paragraphs(found)[-1] == "--on-undecided pass lets it through all the same."
    assert not any("wider" in line for line in paragraphs(found))
    same = replace(found.lines[0], effect=Bounds(0.0, -0.117, 0.117), run=1.0)
    alike = replace(found, arms=(replace(ARM, lines=(same,)),))
    borne = "these 120 pass at one of 0.12, which is to be chosen before a run, not after."
    assert f"At a margin of 0.02, 149 tasks pass if all of them agree, and more are needed if some do not; {borne}" in paragraphs(
        alike
    )


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.0, 1.0]), min_size=12, max_size=40))
def test_the_margin_that_these_tasks_pass_at_is_one_that_they_pass_at(changes):
    """And no smaller one of two digits is."""
    alone = {f"t{n}": "" for n in range(len(changes))}
    was = TaskValues({name: [0.5] for name in alone}, alone)
    now = TaskValues({name: [0.5 + change / 2] for name, change in zip(alone, changes, strict=True)}, alone)

    def judged(margin: float) -> GateLine:
        return decide([Held("a", "accuracy", was, now, margin)])[0]

    margin = shown_margin(judged(0.01))
    assert margin < 1
    assert judged(margin).outcome == "pass"
    assert margin <= 0.02 or judged(round(margin - 0.01, 2)).outcome != "pass"


def better_or_worse(*lines: GateLine) -> GateResult:
    return replace(JUDGED, outcome="pass", arms=(replace(ARM, lines=tuple(replace(line, outcome="pass") for line in lines)),))


def test_a_cost_that_changed_by_less_than_a_hundredth_is_not_told():
    steps = replace(LINE, metric="steps", effect=Bounds(1.004, 1.001, 1.008), margin=0.1)
    assert headline(better_or_worse(steps)) == "pass: within the margin"
    assert table(better_or_worse(steps)).rows[0][-1] == "pass"
    dearer = replace(steps, effect=Bounds(1.04, 1.01, 1.08))
    assert headline(better_or_worse(dearer)) == "pass: worse, but within the margin: finish/clean in steps ×1.04 [1.01, 1.08]"


def test_a_better_accuracy_stands_before_what_it_saves():
    better = replace(LINE, worse=False, better=True)
    tokens = replace(better, metric="tokens", effect=Bounds(0.8, 0.7, 0.9), margin=0.1)
    said = headline(better_or_worse(tokens, better), 1)
    assert said == "pass: better: finish/clean in accuracy -0.150 [-0.210, -0.090], 1 more"


def test_one_trial_differs_and_several_differ():
    one = "1 more trial scored and ended as in the baseline, but differs in steps and tokens."
    assert one in paragraphs(replace(JUDGED, same_result=1))
    assert "4 more trials scored and ended as in the baseline, but differ in steps and tokens." in paragraphs(JUDGED)
