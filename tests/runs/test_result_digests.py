"""Digests of what a trial can see of the user's own tools: their results, and nothing of their source."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from whichloop.runs import new_manifest
from whichloop.runs.code_digests import scorer_digests
from whichloop.runs.config import CompareConfig
from whichloop.runs.lookup import suite_of
from whichloop.runs.manifest import TaskDigests

TOOLS = '''
import itertools, os, time
COUNT = itertools.count()
def double(n: int) -> int:
    """Twice n."""
    return 2 * n
def half(n: int) -> float:
    """Half of n."""
    return n / 2
def new() -> int:
    """A number that nobody had before."""
    return next(COUNT)
'''
PLANS = {"both": "a = double(n=3)\nb = half(n=a)\nanswer = b", "one": "b = half(n=6)\nanswer = b", "new": "c = new()\nanswer = c"}


@pytest.fixture
def digests_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], TaskDigests]]:
    """Gives the digests of four tasks with tools of this source."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "none", "question": "?", "answer": 3}]
    rows += [{"id": name, "question": f"{name}?", "answer": 3, "plan": plan} for name, plan in PLANS.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def digests(source: str) -> TaskDigests:
        sys.modules.pop("seen_tools", None)
        (tmp_path / "seen_tools.py").write_text(source)
        config = CompareConfig(suite="jsonl", data=tmp_path / "rows.jsonl", tools="seen_tools", loops=("bare",))
        suite = suite_of(config)
        made = new_manifest.question_digests(config, suite, suite.tasks)["task_digests"]
        assert isinstance(made, TaskDigests)
        return made

    yield digests
    sys.modules.pop("seen_tools", None)


@pytest.mark.parametrize(
    ("was", "now", "changed", "left_out"),
    [
        ("return 2 * n", "return n + n  # a comment", set(), set()),
        ("return 2 * n", "return 30 * n", {"both"}, set()),
        ("return n / 2", "raise ValueError('no halves')", {"both", "one"}, set()),
        ("return 2 * n", "time.sleep(30)", set(), {"both", "one"}),
    ],
)
def test_a_result_is_told_by_the_tasks_whose_plan_gets_it(digests_of, monkeypatch, was, now, changed, left_out):
    """In this process, as of objects that no other one finds."""
    monkeypatch.setattr(new_manifest, "REPLAY_S", 0.5)
    monkeypatch.setattr(new_manifest, "with_worker_process", lambda config: config)
    before, after = digests_of(TOOLS), digests_of(TOOLS.replace(was, now))
    assert before.results.keys() == {"both", "one"}  # the others give a new result each time, or have no plan
    assert (after.tasks, after.shared) == (before.tasks, before.shared)
    assert after.results.keys() == before.results.keys() - left_out
    assert {task for task in after.results if after.results[task] != before.results[task]} == changed


def test_tools_that_end_their_process_end_a_worker_and_their_tasks_have_no_result(digests_of):
    assert digests_of(TOOLS).results.keys() == {"both", "one"}
    assert not digests_of(TOOLS.replace("return n / 2", "os._exit(3)")).results


def test_a_scorer_of_one_s_own_is_another_by_its_code_and_not_by_a_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = {
        "one": "def near(j): return 1.0\n",
        "two": "# a comment\ndef near(j):\n    return 1.0\n",
        "three": "def near(j): return 0.5\n",
    }
    found = []
    for name, text in texts.items():
        (tmp_path / f"scorer_{name}.py").write_text(text)
        importlib.import_module(f"scorer_{name}")
        found.append(scorer_digests([f"scorer_{name}:near"]))
    assert found[0] == found[1] != found[2]
    assert scorer_digests([]) == []
