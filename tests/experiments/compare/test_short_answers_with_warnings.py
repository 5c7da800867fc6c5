"""An answer of twelve lines has its verdict among them however many warnings there are, and says how many have no room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.cli.console import WIDE
from whichloop.cli.render_answer import MAX_LINES, answer_lines
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.experiments.compare.verdict_old.warned import dead_arm_sentences, warned
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

TASKS = 12
KINDS = ("sound", "weak", "crashes", "crashes at times", "never asks", "times out")
"""What a loop does: of the first two, nothing that is warned of."""


@pytest.fixture(scope="session")
def troubled(record):
    """Compares loops by what each of them does, under so many profiles."""

    def make(kinds: Mapping[str, str], profiles: int) -> Comparison:
        infos = [ArmInfo(f"{loop}/p{n}", loop, {}, "scripted", f"p{n}", "s") for loop in kinds for n in range(profiles)]
        return compare([one for info in infos for one in trials(record, info, kinds[info.loop])], infos)

    return make


def trials(record, info: ArmInfo, kind: str):
    long_reason = {"stop": "crashed", "reason": f"KeyError: {'a long key of this loop ' * 6}at {info.loop}.py:12"}
    broken = {"crashes": long_reason, "crashes at times": long_reason, "times out": {"stop": "timeout", "reason": "the time is up"}}
    share = {"sound": 0, "weak": 0.6, "crashes": 1, "crashes at times": 0.4, "never asks": 0, "times out": 0.3}[kind]
    for task in range(TASKS):
        fails = task < share * TASKS
        yield record(
            arm=info.arm,
            task=f"t{task}",
            scores={"accuracy": float(not fails)},
            calls={} if kind == "never asks" else {"decide": 2},
            **(broken.get(kind, {}) if fails else {}),
        )


def shown(comparison: Comparison, width: int) -> list[str]:
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=TASKS), settings=SimpleNamespace(repeats=1))
    found = Results(Path("runs/here"), manifest, (), comparison)  # type: ignore[arg-type]
    command = ("whichloop", "compare", "--loop", "first", "--loop", "second")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "answer", answer(comparison))
        patch.setattr(Results, "title", f"arithmetic 2: {TASKS} tasks × 1, seed 0")
        patch.setattr("whichloop.cli.render_answer.deciding_command", lambda manifest, run: command)
        return [line.plain for line in answer_lines(found, width)]


def begin(words: str) -> str:
    return " ".join(words.split()[:4])


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=7),
    profiles=st.integers(1, 2),
    width=st.sampled_from([80, 100, 120]),
)
def test_the_verdict_and_what_is_weightiest_of_the_warnings_are_among_twelve_lines(troubled, kinds, profiles, width):
    comparison = troubled({f"loop{n}": kind for n, kind in enumerate(kinds)}, profiles)
    lines = shown(comparison, width)
    assert len(lines) <= MAX_LINES
    assert all(len(line) <= width for line in lines)
    flowing = " ".join(lines)
    verdicts = [each for each in answer(comparison).answer_sentences if not each.is_basis]
    for verdict in verdicts[:1]:
        assert any(begin(form) in flowing for form in (verdict.text, verdict.brief, verdict.briefest) if form)
    faults = [each.text for each in dead_arm_sentences(comparison)]
    warnings = [*faults, *warned(comparison)]
    assert all(begin(first) in flowing for first in warnings[:1])
    assert not any("…" in line and "whichloop" in line for line in lines), "no command is cut"


@given(kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=5), profiles=st.integers(1, 2))
def test_into_a_pipe_every_warning_is_told_and_no_command_that_would_tell_more(troubled, kinds, profiles):
    comparison = troubled({f"loop{n}": kind for n, kind in enumerate(kinds)}, profiles)
    lines = shown(comparison, WIDE)
    assert {*warned(comparison)} <= {*lines}
    assert not any("more warning" in line for line in lines)


def test_a_loop_that_is_compared_with_none_is_not_told_to_tie_with_the_best(troubled):
    kinds = {f"loop{n}": "sound" for n in range(8)} | {"mute": "never asks"}
    flowing = " ".join(shown(troubled(kinds, 2), 80))
    ((hidden, ties),) = re.findall(r" and (\d+) more loops, .*?, (\d+) not told apart from the best", flowing)
    assert int(ties) == int(hidden) - 1
