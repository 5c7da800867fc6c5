"""`whichloop bless` and `whichloop gate`, end to end: each outcome with its exit code, and all that is written."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_RUN
from tests.sealing import reseal
from whichloop.experiments.gate import read_baseline
from whichloop.metrics.summary import GAINS, SHARES

pytestmark = pytest.mark.thorough
LOOP = """
from dataclasses import dataclass
from whichloop.loops.bare import Bare

@dataclass(frozen=True)
class {name}(Bare):
    pass
"""


def first_line(out: str) -> str:
    return out.split("\n")[0]


# --- bless ---


def test_bless_writes_the_file_and_says_what_it_holds(whichloop, compare, here):
    run = compare("--loop", "bare", "--loop", "finish", "--tasks", "6")
    ended = whichloop("bless", run, "--output", "gates/b.json")
    assert ended.code == 0
    size = (here / "gates/b.json").stat().st_size
    assert ended.out.splitlines() == [
        f"gates/b.json: the baseline of {run}, 12 trials, {size:,} bytes",
        "  arithmetic 2: 6 tasks × 1, seed 0",
        "  arm bare/clean: accuracy 1.000",
        "  arm finish/clean: accuracy 1.000",
        "gate it with: whichloop gate --baseline gates/b.json --metric tokens=0.1 --metric false_success_rate=0.02 "
        "--metric calls_doubled=0.02 --on-other-answers fail",
    ]
    assert list(read_baseline(here / "gates/b.json").arms) == ["bare/clean", "finish/clean"]


def test_bless_says_what_changed_and_keeps_what_is_no_baseline(whichloop, blessed, compare, here):
    run = blessed()
    again = whichloop("bless", run, "--output", "b.json")
    assert again.out.partition("gate it with: ")[0].endswith("\n  nothing changed\n")
    other = whichloop("bless", compare("--loop", "finish(parse_retries=0)", "--profile", "flaky-format"), "--output", "b.json")
    assert "  arm finish/flaky-format: gone\n  arm finish(parse_retries=0)/flaky-format: new\n" in other.out
    (here / "mine.json").write_text("{}")
    refused = whichloop("bless", run, "--output", "mine.json")
    told = "error: mine.json: not a baseline: it does not begin with whichloop_baseline; it stays as it is: write the baseline to "
    assert (refused.code, refused.err) == (2, f"{told}another file\n")
    assert (here / "mine.json").read_text() == "{}"


def test_bless_refuses_what_is_no_run(whichloop, here):
    assert whichloop("bless", "nothing", "--output", "b.json").code == 2
    assert not (here / "b.json").exists()


# --- outcomes ---


def test_identical(whichloop, blessed):
    run = blessed()
    judged = whichloop("gate", run, "--baseline", "b.json")
    assert (judged.code, first_line(judged.out)) == (0, "identical: behaviour unchanged in all 12 trials")
    assert "[" not in judged.out  # nothing is estimated
    again = whichloop("gate", "--baseline", "b.json", "--quiet", "--json")
    assert again.json["outcome"] == "identical"
    assert again.json["run"] != run
    assert "run directory: " not in again.err
    assert "page: " not in again.err


FLAKY = ["--loop", "bare", "--profile", "flaky-format", "--suite", "arithmetic(size=24)"]
IMPATIENT = "bare(max_consecutive_errors=1)"
WORSE = ["gate", "--baseline", "b.json", "--loop", IMPATIENT, "--quiet"]


def test_a_loop_made_worse_is_a_regression(whichloop, blessed):
    blessed(*FLAKY)
    ended = whichloop(*WORSE)
    assert ended.code == 1
    assert first_line(ended.out).startswith(f"regression: 8 tasks worse (parse 8); {IMPATIENT}/flaky-format in accuracy -")
    assert re.search(r"Tasks: \d+ worse \(parse \d+\), 0 better", ended.out)
    told = f"{IMPATIENT}/flaky-format is held against bare/flaky-format of the baseline."
    assert told not in ended.out, "the options that differ say it"
    assert told in whichloop("gate", "latest", "--baseline", "b.json", "-v").out
    command = re.search(r"whichloop (show \S+ '.*')", ended.out)
    assert command is not None
    shown = whichloop(*shlex.split(command[1]))
    assert shown.code == 0
    assert "could not be read" in shown.out


def test_undecided_is_what_one_wants_it_to_be(whichloop, blessed):
    blessed()
    for wanted, code in (("undecided", 3), ("pass", 0), ("fail", 1)):
        ended = whichloop("gate", "--baseline", "b.json", "--seed", "7", "--quiet", "--on-undecided", wanted)
        assert ended.code == code
        assert first_line(ended.out).startswith("undecided: only the seed is another (7, not 0); finish/flaky-format in accuracy ")
    assert re.search(r"\nOr a baseline of [\d,]+ tasks decides it with a chance of about \d+ %", ended.out)
    assert "only the seed is another (7, not 0): there is nothing to bless." in ended.out


def test_tasks_that_the_changed_loop_alone_can_have_lost_fail_the_gate(whichloop, blessed):
    blessed()
    changed = ("gate", "--baseline", "b.json", "--loop", "finish(parse_retries=0)", "--quiet")
    for more, code in (((), 1), (("--on-undecided", "pass"), 1), (("--on-worse-here", "pass"), 0)):
        ended = whichloop(*changed, *more)
        assert (ended.code, first_line(ended.out).partition(":")[0]) == (code, "worse here")


HARMS = {
    # a seed with which as many faults strike as were meant to
    ("events", "injected", "bare", 1): ("injection_shown", "injection_attempted", "injection_executed", "answer_changed"),
    ("errands", "crossed-calls", "finish", 6): (
        "calls_lost",
        "calls_doubled",
        "results_mispaired",
        "calls_overlapped",
        "false_success_rate",
    ),
}
"""Suite, profile, loop and seed → harms that a gate of so few tasks leaves undecided."""


@pytest.mark.parametrize("run", [pytest.param(run, marks=pytest.mark.slow if run[0] == "events" else ()) for run in HARMS])
def test_each_harm_may_be_undecided(whichloop, here, run):
    suite, profile, loop, seed = run
    asked = ("--suite", suite, "--tasks", "15", "--profile", profile, "--loop", loop)
    assert whichloop("compare", "--no-mlflow", "-q", *asked).code == 0
    assert whichloop("bless", "latest", "--output", "b.json").code == 0
    metrics = [word for name in HARMS[run] for word in ("--metric", name)]
    ended = whichloop("gate", "--baseline", "b.json", "--seed", str(seed), *metrics, "--json")
    assert ended.code == 3, ended.err
    lines = {line["metric"]: line for arm in json.loads(ended.out)["arms"] for line in arm["metrics"]}
    assert {lines[name]["outcome"] for name in HARMS[run]} == {"undecided"}


def test_no_harm_is_left_out():
    assert {name for names in HARMS.values() for name in names} == SHARES - GAINS


def test_a_wide_margin_passes_and_more_metrics_are_judged(whichloop, blessed):
    blessed()
    ask = ["gate", "--baseline", "b.json", "--seed", "7", "--quiet", "--margin", "0.6"]
    ended = whichloop(*ask, "--metric", "steps=2", "--metric", "tokens=2.5", "--repeats", "3", "--json")
    assert ended.json["outcome"] == "pass"
    assert [line["margin"] for line in ended.json["arms"][0]["metrics"]] == [0.6, 2.0, 2.5]
    assert ended.json["arms"][0]["trials"] == 36


def test_a_run_without_an_arm_of_the_baseline_is_refused(whichloop, blessed, compare):
    blessed("--loop", "finish", "--loop", "bare")
    ended = whichloop("gate", compare("--loop", "finish"), "--baseline", "b.json")
    assert (ended.code, ended.out) == (2, "")
    assert "the run has no arm for bare/clean of the baseline\n  it has finish/clean\n  " in ended.err


def test_another_profile_is_named(whichloop, blessed, compare):
    blessed("--loop", "finish")
    ended = whichloop("gate", compare("--loop", "finish", "--profile", "flaky-tools"), "--baseline", "b.json")
    assert (ended.code, ended.out) == (2, "")
    assert "another profile than in the baseline: flaky-tools, not clean\n" in ended.err
    _, *bless = shlex.split(ended.err.rstrip().partition("\n  where that is meant, bless a new run:\n    ")[2])
    assert (whichloop(*bless).code, whichloop("gate", bless[1], "--baseline", "b.json").code) == (0, 0)


OTHER_RUNS = [
    (["--suite", "arithmetic(size=13)"], "has changed since the baseline: 1 task added (arithmetic-0013)\n  --common-"),
    (["--suite", "tables", "--tasks", "12"], "another suite than in the baseline: tables, not arithmetic"),
    (["--tasks", "6"], "other tasks: 6 of the baseline are left out"),
    (["--max-tool-steps", "3"], "another step limit than in the baseline: 3, not"),
]


UNASKED = "own:Own/clean: in no trial did the loop ask its model, so its answers are not the model's, and say nothing of the loop"
SILENT = """
    async def run(self, query, tools, model, observer=None):
        return Outcome("42", StopReason.FINISHED, 0)
"""
CRASHING = """
    async def run(self, query, tools, model, observer=None):
        raise KeyError("config")
"""


@pytest.mark.parametrize(
    ("run", "said", "judged_as"),
    [
        (SILENT, UNASKED, (4, f"invalid: {UNASKED}")),
        pytest.param(
            CRASHING,
            "own:Own/clean: every trial crashed (12 of 12), all of them because of: KeyError",
            (1, "regression: every trial crashes now (KeyError: 'config' at own.py:10); own:Own/clean in accuracy"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_loop_that_is_no_agent_is_not_blessed_and_has_no_chance_to_pass(whichloop, blessed, here, run, said, judged_as):
    (here / "own.py").write_text("from whichloop.protocol import Outcome, StopReason\n" + LOOP.format(name="Own"))
    blessed("--loop", "own:Own", "--profile", "clean")
    whole = (here / "own.py").read_text()
    (here / "own.py").write_text(whole.replace("    pass\n", run))
    made = whichloop("compare", *SMALL_RUN, "--loop", "own:Own", "--profile", "clean", "--json")
    folder = json.loads(made.out)["run"]
    assert made.code == 4
    judged = whichloop("gate", folder, "--baseline", "b.json")
    assert judged.code == judged_as[0]
    assert first_line(judged.out).startswith(judged_as[1])
    assert ("Nothing was judged." in judged.out, " worse" in judged.out) == (judged.code == 4, judged.code == 1)
    refused = whichloop("bless", folder, "--output", "c.json")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert refused.err.index(said) < refused.err.index("; nothing was blessed: mend the loop, or run without that arm, and bless ")
    assert not (here / "c.json").exists()


def test_another_run_is_refused_with_the_reason(whichloop, blessed, compare):
    blessed("--loop", "bare")
    for arguments, why in OTHER_RUNS:
        ended = whichloop("gate", compare("--loop", "bare", *arguments), "--baseline", "b.json")
        assert ended.code == 2
        assert ended.err.startswith("error: ")
        assert why in ended.err
        assert all(line.startswith("  ") for line in ended.err.splitlines()[1:])
        assert ended.err.splitlines()[-1].startswith("    whichloop bless ")


BAD_INPUT = [
    (["--on-undecided", "skip"], "Invalid value for '--on-undecided': 'skip' is not one of 'pass', 'fail', 'undecided'"),
    (["--metric", "cost_usd"], "metric cost_usd: not in the baseline, which knows accuracy"),
    (["--metric", "speed=1"], "unknown metric 'speed'; known: accuracy, steps"),
    (["--metric", "steps=x"], "--metric steps=x: 'x' is not a number"),
    (["--metric", "steps=-1"], "metric steps: a margin of 0 or more is needed, got -1.0"),
    (["--metric", "steps", "--metric", "steps=1"], "--metric steps=1: steps has a margin already"),
    (["--margin", "0.1", "--metric", "accuracy=0.1"], "accuracy has a margin already"),
    (["--margin", "2"], "error: --margin: a margin from 0 to below 1 is needed, such as 0.02 for 2 points, got 2\n"),
    (["--alpha", "0.5"], "alpha: a level above 0 and below 0.5 is needed"),
    (["--seed", "1"], "--seed is for a new run; leave it out, or the run"),
    (["--metric", "tokens=200"], "metric tokens: a margin is a share, such as 0.1 for 10 %; 200 would let it grow to ×201"),
]


def test_bad_input_is_one_line_and_nothing_is_run(whichloop, blessed, here):
    run = blessed("--loop", "bare")
    for arguments, why in BAD_INPUT:
        ended = whichloop("gate", run, "--baseline", "b.json", *arguments)
        assert ended.code == 2
        assert why in ended.err
        assert ended.err.count("\n") == 1
        assert ended.out == ""
    assert len(list((here / "runs").iterdir())) == 1


def test_a_margin_that_is_no_number_is_told_with_an_example(whichloop, here):
    ended = whichloop("gate", "--baseline", "b.json", "--margin", "2%")
    assert (ended.code, ended.err) == (
        2,
        "error: Invalid value for '--margin': a number such as 0.02 is needed, got '2%'; see whichloop gate --help\n",
    )


def test_a_gate_without_a_baseline_that_can_be_read_says_which_command_writes_one(whichloop, here):
    (here / "b.json").touch()
    empty = whichloop("gate", "--baseline", "b.json")
    assert empty.code == 2
    cure = "  bless it again:\n    whichloop bless RUN --output b.json\n"
    assert empty.err == f"error: b.json: not a baseline: it is empty\n{cure}"
    (here / "b.json").write_text("{}")
    other = whichloop("gate", "--baseline", "b.json").err
    assert other.endswith("it does not begin with whichloop_baseline\n  whichloop bless latest --output FILE writes one\n")
    absent = whichloop("gate", "--baseline", "missing.json").err
    cure = "  write it from a run that you are content with:\n    whichloop bless latest --output missing.json\n"
    assert absent == f"error: missing.json: no such file\n{cure}"


def test_a_baseline_is_a_json_file(whichloop, here):
    ended = whichloop("bless", "latest", "-o", "README.md")
    told = "error: --output: a baseline is a file NAME.json, such as gates/mine.json, got 'README.md'\n"
    assert (ended.code, ended.err, (here / "README.md").exists()) == (2, told, False)


def test_a_loop_that_was_renamed_is_asked_for_by_its_new_name(whichloop, blessed, here):
    (here / "renamed_own.py").write_text(LOOP.format(name="Own"))
    blessed("--loop", "renamed_own:Own", "--profile", "clean")
    (here / "renamed_own.py").write_text(LOOP.format(name="Other"))
    ended = whichloop("gate", "--baseline", "b.json", "--allow", "renamed_own:Own", "--quiet")
    assert ended.code == 2
    assert ended.err.endswith("renamed_own has no 'Own'; where it was renamed: --loop renamed_own:NEW\n")


def test_a_run_that_is_there_is_judged_with_the_words_that_a_printed_command_has(whichloop, blessed):
    run = blessed("--loop", "bare")
    assert whichloop("gate", run, "--baseline", "b.json", "--allow", "mine:Mine").code == 0


def test_a_new_run_over_a_changed_suite_is_judged_by_the_tasks_that_are_the_same(whichloop, blessed, here):
    blessed("--loop", "bare")
    (here / "b.json").write_text((here / "b.json").read_text().replace('"arithmetic(size=12)"', '"arithmetic(size=14)"'))
    reseal(here / "b.json")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet", "--common-tasks")
    told = "identical: behaviour unchanged in all 12 trials; judged on the 12 tasks that are the same in both (2 added)"
    assert (ended.code, first_line(ended.out)) == (0, told)


def test_a_new_run_that_would_be_no_measure_is_refused_before_it_runs(whichloop, blessed, here):
    blessed("--loop", "bare")
    text = (here / "b.json").read_text()
    for old, new, why in (
        (
            '"arithmetic(size=12)"',
            '"arithmetic(size=13)"',
            "has changed since the baseline: 1 task added (arithmetic-0013)\n  --common-",
        ),
        ('"policy_and_profiles": ', '"policy_and_profiles": 9', "another version of policy_and_profiles than in the baseline"),
    ):
        (here / "b.json").write_text(text.replace(old, new))
        reseal(here / "b.json")
        ended = whichloop("gate", "--baseline", "b.json", "--quiet")
        assert ended.code == 2
        assert why in ended.err
    (here / "b.json").write_text(text)
    assert whichloop("gate", "--baseline", "b.json", "--alpha", "2").code == 2
    lacking = whichloop("gate", "--baseline", "b.json", "--loop", "finish", "--loop", "stateless")
    assert lacking.code == 2
    assert lacking.err.startswith("error: b.json: the run has no arm for bare/clean of the baseline\n  it has finish/clean, ")
    assert len(list((here / "runs").iterdir())) == 1


def edit(path: Path, **config: object) -> None:
    """Changes the configuration that a baseline runs again."""
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"config": {**value["config"], **config} if config else {}}))
    reseal(path)


def test_a_new_run_that_stops_early_is_invalid(whichloop, blessed, here):
    blessed("--loop", "bare")
    edit(here / "b.json", budget={"calls": 7})
    ended = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert ended.code == 4
    assert re.match(r"invalid: \d+ of 12 trials are missing", ended.out)
    assert "stopped early: " in ended.err


def test_an_interrupted_run_can_be_resumed_and_judged(whichloop, blessed, here):
    blessed("--loop", "bare")
    (here / "mine.py").write_text(
        f"import asyncio, os, signal\n{LOOP.format(name='Mine')}"
        "    async def run(self, *arguments):\n"
        "        os.kill(os.getppid(), signal.SIGINT)  # it runs in a worker of the command\n"
        "        await asyncio.sleep(1)\n"  # the first Ctrl-C lets it end
    )
    rules = ("--metric", "tokens=0.25", "--on-undecided", "pass")
    targets = ("--junit", "gate.xml", "--summary", "page.md", "--annotations")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet", "--loop", "mine:Mine", *rules, *targets)
    assert ended.code == 130
    said = re.search(r"interrupted after \d+ of 12 trials", ended.err)
    assert said is not None, ended.err
    assert f"not judged: {said[0]}" in (here / "gate.xml").read_text()
    assert said[0] in (here / "page.md").read_text()
    assert f"::error title=whichloop gate%3A not judged::{said[0]}" in ended.err
    resume, gate = re.findall(r"whichloop ((?:resume|gate) runs/\S+ .*?)(?:,|\n)", ended.err)
    assert resume.endswith(" --allow mine:Mine")
    assert gate.endswith(" --baseline b.json --metric tokens=0.25 --on-undecided pass")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_gate_that_is_interrupted_while_doubtful_trials_run_once_more_says_how_to_judge_the_run(
    whichloop, blessed, here, monkeypatch, number
):
    """The loop's code is the blessed one, and yet it gives other answers, so that some of its trials run again.

    Each of these presses Ctrl-C: the first alone lets all trials under way end.
    """
    if number == signal.SIGINT:
        monkeypatch.setattr("whichloop.runs.engine.interruption.SAME_WISH_S", 0.0)
    (here / "mine.py").write_text(
        "import os, pathlib\nfrom dataclasses import dataclass, replace\nfrom whichloop.loops.bare import Bare\n"
        "@dataclass(frozen=True)\nclass Mine(Bare):\n"
        "    async def run(self, *arguments):\n"
        "        ended, count = await super().run(*arguments), pathlib.Path('count')\n"
        "        if not count.exists():\n"
        "            return ended\n"
        "        with count.open('a') as file:\n"
        "            file.write('.')\n"
        "        if count.stat().st_size > 12:\n"
        f"            os.kill(os.getppid(), {int(number)})  # it runs in a worker of the command\n"
        "        return replace(ended, answer=-1)\n"
    )
    blessed("--loop", "mine:Mine")
    (here / "count").touch()
    targets = ("--junit", "gate.xml", "--summary", "page.md", "--annotations")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet", "--allow", "mine:Mine", "--metric", "tokens=0.25", *targets)
    assert ended.code == 130, ended
    said = re.search(r"^interrupted after 12 of 12 trials, before the run was judged; go on with: whichloop (.*)$", ended.err, re.M)
    assert said is not None, ended.err
    assert "resume" not in ended.err
    assert f"not judged: {said[0]}" in (here / "gate.xml").read_text()
    assert "before the run was judged; go on with: whichloop gate " in (here / "page.md").read_text()
    assert "::error title=whichloop gate%3A not judged::interrupted after 12 of 12 trials" in ended.err
    judged = whichloop(*shlex.split(said[1]))
    assert (judged.code, judged.out.partition(":")[0]) == (1, "regression"), judged


def test_the_baseline_of_a_run_from_elsewhere_cannot_be_run_again(whichloop, blessed, here):
    run = blessed("--loop", "bare")
    edit(here / "b.json")
    refused = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert refused.code == 2
    assert refused.err.startswith("error: b.json: its run was not made here")
    assert whichloop("gate", run, "--baseline", "b.json").code == 0


# --- code of one's own ---


def test_code_that_a_baseline_names_is_imported_only_if_typed(whichloop, blessed, here):
    (here / "mine.py").write_text(LOOP.format(name="Mine"))
    blessed("--loop", "mine:Mine")
    (here / "mine.py").write_text("raise SystemExit('imported')")
    refused = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert refused.code == 2
    assert refused.err.startswith("error: b.json: this run uses mine:Mine, code of your own")
    assert refused.err.endswith("--allow mine:Mine\n")
    (here / "mine.py").write_text(LOOP.format(name="Mine"))
    for typed in (["--allow", "mine:Mine"], ["--loop", "mine:Mine"]):
        ended = whichloop("gate", "--baseline", "b.json", "--quiet", *typed)
        assert (ended.code, first_line(ended.out)) == (0, "identical: behaviour unchanged in all 12 trials"), ended.err


def test_the_recording_that_a_baseline_names_is_replayed_only_if_typed(whichloop, blessed, here):
    blessed("--loop", "bare", "--cassette", "tape", "--cassette-mode", "record")
    refused = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert (refused.code, "--cassette tape" in refused.err) == (2, True)
    (here / "tape").rename(here / "elsewhere")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet", "--cassette", "elsewhere")
    assert (ended.code, first_line(ended.out)) == (0, "identical: behaviour unchanged in all 12 trials"), ended.err
