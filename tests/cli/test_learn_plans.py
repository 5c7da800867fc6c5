"""`whichloop learn plans`, and `-s skip_unplanned=true`: from questions without plans to the scripted model and its faults."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import start_command
from whichloop.datasets import arithmetic
from whichloop.datasets.task import Task

RUN = ["--profile", "clean", "--quiet", "--suite", "arithmetic(size=6)", "--loop", "bare"]
TOOLS = "from whichloop.datasets import calculator\n\nTOOLS = list(calculator.TOOLS)\n"


@pytest.fixture
def ran(whichloop: Callable[..., Any], compared_once: Callable[..., Path]) -> Callable[..., Any]:
    """The same, after a run."""
    compared_once(*RUN)
    return whichloop


def tasks_in(file: Path) -> list[Task]:
    return [Task.from_dict(json.loads(line)) for line in file.read_text(encoding="ascii").splitlines()]


def test_a_learned_suite_is_written_and_the_scripted_model_and_its_faults_work_on_it(ran, tmp_path, monkeypatch):
    learned = ran("learn", "plans", "latest", "-o", "suite.jsonl")
    assert learned.code == 0
    assert re.search("^Next +whichloop compare --suite jsonl --data suite.jsonl", learned.out, re.MULTILINE)
    assert "--check" not in learned.out  # a suite of whichloop's own is always checked
    assert [task.id for task in tasks_in(tmp_path / "suite.jsonl")] == [task.id for task in arithmetic.load(size=6).tasks]
    (tmp_path / "calculating.py").write_text(TOOLS)
    again = ran(
        "compare", "--quiet", "--json", "--suite", "jsonl", "--data", "suite.jsonl", "--tools", "calculating",
        "--loop", "bare", "--loop", "finish", "--profile", "clean", "--profile", "flaky-tools",
    )  # fmt: skip
    assert again.code == 0, again.err
    arms = {arm["arm"]: arm for arm in again.json["arms"]}
    assert len(arms) == 4
    assert all(arm["accuracy"]["value"] == 1 for name, arm in arms.items() if name.endswith("/clean"))
    assert any(arm["faults"]["landed"] for arm in arms.values())


def test_the_command_that_is_told_works_as_it_stands(ran):
    (command,) = re.findall("^Next +whichloop (.*)$", ran("learn", "plans", "latest", "-o", "suite.jsonl").out, re.MULTILINE)
    again = ran(*shlex.split(command), "--quiet", "--json", "--loop", "bare", "--profile", "clean")
    assert again.code == 0, again.err
    assert again.json["arms"][0]["accuracy"]["value"] == 1


def test_json_lists_plans_literals_and_what_was_not_learned_under_stable_names(ran):
    found = ran("learn", "plans", "latest", "-o", "suite.jsonl", "--json").json
    assert set(found) == {"run", "out", "checked", "tasks", "learned", "references", "plans", "literal", "not_learned"}
    assert (found["tasks"], found["learned"], found["checked"], found["not_learned"]) == (6, 6, True, [])
    assert found["references"] == sum(plan["references"] for plan in found["plans"]) > 6
    assert found["plans"][0] == {
        "task": "arithmetic-0001", "trial": "bare/clean/arithmetic-0001/0", "calls": 3, "references": 3,
    }  # fmt: skip
    assert all(set(one) == {"task", "call", "argument", "value", "why", "seen"} for one in found["literal"])


def test_the_table_shows_what_stayed_literal_and_why(ran):
    shown = ran("learn", "plans", "latest", "-o", "suite.jsonl", "-v").out
    assert "in the question too" in shown
    assert "kept literal" in shown


def test_equal_runs_give_equal_bytes_and_any_order_leaves_the_order_out(ran, tmp_path):
    ran("learn", "plans", "latest", "-o", "one.jsonl")
    ran("learn", "plans", "latest", "-o", "two.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert any(call.after for task in tasks_in(tmp_path / "one.jsonl") if task.plan for call in task.plan.calls)
    ran("learn", "plans", "latest", "-o", "free.jsonl", "--any-order")
    assert not any(call.after for task in tasks_in(tmp_path / "free.jsonl") if task.plan for call in task.plan.calls)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free.jsonl", "one.jsonl", "runs", "two.jsonl"]


def test_a_file_is_overwritten_only_when_told(ran, tmp_path):
    kept = tmp_path / "kept.jsonl"
    kept.write_text("mine\n")
    refused = ran("learn", "plans", "latest", "-o", "kept.jsonl")
    assert (refused.code, refused.out) == (2, "")
    assert "exists; overwrite it with --force" in refused.err
    assert kept.read_text() == "mine\n"
    assert ran("learn", "plans", "latest", "-o", "kept.jsonl", "--force").code == 0
    assert len(tasks_in(kept)) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope", "-o", "x.jsonl"], "no run 'nope'"),
        (["latest", "-o", "/dev/null/x.jsonl"], "/dev/null"),
        (["latest", "-o", "runs"], "--output runs: the file's name ends in .jsonl"),
        (["latest"], "plans need a file: --output FILE.jsonl"),
        (["latest", "-o", "x.jsonl", "--arm", "bare"], "--arm goes with profile"),
        (["latest", "-o", "x.jsonl", "--held-out"], "--held-out goes with profile"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(ran, tmp_path, arguments, said):
    found = ran("learn", "plans", *arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_run_that_solved_nothing_teaches_nothing(whichloop, tmp_path):
    whichloop("compare", *RUN[:-3], "arithmetic(size=3)", "--loop", "bare", "--max-tool-steps", "1")
    found = whichloop("learn", "plans", "latest", "-o", "suite.jsonl")
    assert found.code == 2
    assert "no plan was learned (3 tasks: not solved in " in found.err
    assert not (tmp_path / "suite.jsonl").exists()


def test_tasks_of_which_nothing_was_learned_stay_without_a_plan_unless_only_learned_ones_are_wanted(ran, tmp_path):
    ran("learn", "plans", "latest", "-o", "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    half = [row | ({"plan": None, "no_plan": "nobody wrote one"} if number < 2 else {}) for number, row in enumerate(rows)]
    (tmp_path / "half.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in half))
    (tmp_path / "summing.py").write_text(TOOLS)
    own = ["--suite", "jsonl", "--data", "half.jsonl", "--tools", "summing"]
    assert ran("compare", "--quiet", "--loop", "bare", *own, "-s", "skip_unplanned=true").code == 0
    whole = ran("learn", "plans", "latest", "-o", "whole.jsonl", "--allow", "summing")
    assert "skip_unplanned=true" in whole.out
    assert re.search("^Missing +2 tasks: not run in ", whole.out, re.MULTILINE)
    tasks = tasks_in(tmp_path / "whole.jsonl")
    assert [task.no_plan[:7] for task in tasks] == ["not run", "not run", "", "", "", ""]
    part = ran("learn", "plans", "latest", "-o", "part.jsonl", "--only-learned", "--allow", "summing")
    assert "skip_unplanned" not in part.out
    assert tasks_in(tmp_path / "part.jsonl") == tasks[2:]


# --- a first day: questions, tools and no plans ---


def questions(file: Path, count: int) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened)
        rows.writerow(["question", "answer"])
        asked = [task for task in arithmetic.load().tasks if task.expected is not None]
        rows.writerows((task.query.text, task.expected) for task in asked[:count])


def test_questions_without_plans_are_refused_under_the_scripted_model(whichloop, tmp_path):
    questions(tmp_path / "q.csv", 4)
    (tmp_path / "summing.py").write_text(TOOLS)
    asked = ["compare", "--suite", "csv", "--data", "q.csv", "--tools", "summing", "--loop", "bare", "--quiet"]
    refused = whichloop(*asked)
    assert (refused.code, refused.out) == (2, "")
    assert "4 of 4 tasks have no plan" in refused.err
    assert "whichloop learn plans" in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_some_tasks_without_a_plan_are_refused_or_skipped_visibly(whichloop, tmp_path):
    rows = [
        {"question": "Two and three?", "answer": "It is <<2+3=5>>5.\n#### 5"},
        {"question": "One and one?", "answer": "It is two.\n#### 2"},
    ]
    (tmp_path / "g.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    asked = [
        "compare",
        "--suite",
        "gsm8k",
        "--data",
        "g.jsonl",
        "--loop",
        "bare",
        "--profile",
        "clean",
        "--quiet",
        "--json",
    ]
    refused = whichloop(*asked)
    assert refused.code == 2
    assert "1 of 2 tasks has no plan" in refused.err
    assert "no annotation" in refused.err
    assert "-s skip_unplanned=true leaves them out" in refused.err
    (arm,) = whichloop(*asked, "-s", "skip_unplanned=true").json["arms"]
    assert (arm["scored"], arm["excluded"]) == (1, 1)
    assert "no plan" in next(iter(arm["exclusions"]))


@pytest.mark.thorough
def test_a_first_day_with_a_model_behind_an_address(whichloop, tmp_path):
    """Questions and tools; a model that answers them, here the served scripted one; plans learned; faults."""
    questions(tmp_path / "q.csv", 8)
    (tmp_path / "adding.py").write_text(TOOLS)
    common = ["--quiet", "--json", "--tools", "adding"]
    with start_command(["serve", "--port", "0"], tmp_path, {"PATH": os.defpath}, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            real = [
                "--suite",
                "csv",
                "--data",
                "q.csv",
                "--model",
                "openai/scripted",
                "-s",
                f"base_url={address}",
                "--loop",
                "finish",
            ]
            asked = whichloop("compare", *real, *common)
        finally:
            server.terminate()
    assert [arm["accuracy"]["value"] for arm in asked.json["arms"]] == [1.0]
    refused = whichloop("learn", "plans", "latest", "-o", "suite.jsonl")
    assert refused.code == 2
    assert "--allow adding" in refused.err
    learned = whichloop("learn", "plans", "latest", "-o", "suite.jsonl", "--allow", "adding")
    assert learned.code == 0
    assert "the plans were not replayed; --check runs the tools and does that" in learned.out
    assert "--tools adding" in learned.out
    whichloop("learn", "plans", "latest", "-o", "checked.jsonl", "--allow", "adding", "--check")
    assert (tmp_path / "checked.jsonl").read_bytes() == (tmp_path / "suite.jsonl").read_bytes()
    suite = ["--suite", "jsonl", "--data", "suite.jsonl"]
    blown = whichloop("compare", *suite, *common, "--loop", "finish", "--profile", "clean", "--profile", "flaky-tools")
    arms = {arm["arm"]: arm for arm in blown.json["arms"]}
    assert all(arm["accuracy"]["value"] == 1 for name, arm in arms.items() if name.endswith("/clean"))
    assert all(arm["faults"]["landed"] for name, arm in arms.items() if name.endswith("/flaky-tools"))


@pytest.mark.thorough
def test_an_optimization_is_read_by_its_test(whichloop: Any) -> None:
    small = (
        "--suite",
        "arithmetic(size=12)",
        "--train",
        "4",
        "--dev",
        "3",
        "--tasks",
        "4",
        "--repeats",
        "1",
        "--budget",
        "60calls",
    )
    whichloop("optimize", "--loop", "bare", *small, "--optimizer", "LabeledFewShot(k=2)", "-q")
    for command in (("learn", "plans", "latest", "-o", "learned.jsonl"), ("learn", "profile", "latest", "-o", "fitted.toml")):
        ended = whichloop(*command)
        assert "Field required" not in ended.err
        assert ended.code == 0, ended.err
