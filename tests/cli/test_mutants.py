"""Regressions planted in a loop of ours, a line of its source changed: the gate catches each, and says what it is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from whichloop.loops import bare

SOURCE = Path(bare.__file__).read_text(encoding="utf-8")
TRUNCATED = ("opening, talk.messages, tools=offered", "opening, [*talk.messages[:1], *talk.messages[1:][-4:]], tools=offered")
"""The model sees the question and the last two exchanges only."""
UNTOLD = ('        self.observe("error", data, tool_name)\n', "")
"""An unreadable reply is kept, and the model never told what was wrong with it."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "tasks", "profile", "causes", "detail"),
    [
        (TRUNCATED, 28, "clean", ["lost observation"], r"called \w+\(.*\) again at reply \d+, whose result had been cut out"),
        pytest.param(
            UNTOLD,
            48,
            "flaky-format",
            ["parse", "error not shown"],
            "the next prompt did not show the error",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_gate_catches_and_names_what_was_planted(whichloop, here, change, tasks, profile, causes, detail):
    assert SOURCE.count(change[0]) == 1
    mutant = re.sub(r"^from \.(\w)", r"from whichloop.loops.\1", SOURCE.replace(*change), flags=re.MULTILINE)
    (here / "mutant.py").write_text(mutant, encoding="utf-8")
    size = ("--suite", f"arithmetic(size={tasks})", "--profile", profile)
    assert whichloop("compare", "--loop", "bare", *size, "--quiet").code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0
    ended = whichloop("gate", "--baseline", "baseline.json", "--loop", "mutant:Bare", "--json")
    judged = json.loads(ended.out)
    assert (ended.code, judged["outcome"]) == (1, "regression"), ended.err
    assert next(iter(judged["causes"])) == causes[0]  # the commonest
    worse = [task for task in judged["tasks"] if task["cause"] in causes]
    assert len(worse) >= 0.9 * sum(judged["causes"].values())
    named = [task for task in worse if re.search(detail, task["detail"])]
    assert len(named) >= 0.8 * len(worse)
    shown = whichloop(*shlex.split(named[0]["command"])[1:])
    assert shown.code == 0  # the command that it gives leads to the trial
    assert named[0]["task"] in shown.out
