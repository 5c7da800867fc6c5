"""Progress: what it counts is what has ended, it fits any screen, and nothing of a model's reaches the terminal as a control."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from tests.prepared import Prepared
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.reports.progress import trials as progress
from whichloop.reports.progress.counts import MAX_KIND_CHARS, MAX_KINDS, ProgressCounts
from whichloop.reports.progress.trials import clock, watching
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.journal import Journal

LOOPS = tuple(f"bare(max_steps={number})" for number in range(1, 4))


Named = Callable[..., Experiment]


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Named:
    """A run of ten tasks whose arms have any names, and of any budget."""
    runs = tmp_path_factory.mktemp("runs")
    made = prepare(CompareConfig(loops=LOOPS[:1], suite="arithmetic", tasks=10, mlflow=False, runs=runs))

    def called(names: Sequence[str], **budget: float) -> Experiment:
        config = made.config.model_copy(update={"budget": BudgetConfig.model_validate(budget)})
        return replace(made, config=config, arms=tuple(replace(made.arms[0], name=name) for name in names))

    return called


def record(arm: str, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "task": "t", "repeat": 0, "seed": 0, "status": "scored"}
    return Record(arm=arm, **(values | changes))


RECORDS = st.lists(
    st.builds(
        record,
        st.sampled_from("abc"),
        status=st.sampled_from(["scored", "scored", "errored", "excluded"]),
        reason=st.text(max_size=5) | st.sampled_from(["provider: 500", "provider: slow", "scorer exact: KeyError"]),
        stop=st.sampled_from(["finished", "timeout", "crashed", None]),
        scores=st.sampled_from([{"accuracy": 0.0}, {"accuracy": 1.0}, {"accuracy": 0.3}]),
        errors=st.sampled_from([{}, {"wire": 2, "tool.KeyError": 1}]),
        calls=st.just({"decide": 3, "extract": 1}),
        input_tokens=st.integers(0, 100),
        cost_usd=st.none() | st.floats(0, 1),
        nominal_usd=st.none() | st.floats(1, 2),
    ),
    max_size=30,
)


@given(RECORDS)
def test_what_is_counted_is_what_has_ended(named, records):
    tally = ProgressCounts(named("abc"))
    for one in records:
        tally.finished(one)
    assert tally.done == len(records)
    assert tally.spent.calls == 4 * len(records)
    assert tally.spent.tokens == sum(one.tokens for one in records)
    assert tally.spent.dollars == pytest.approx(sum(one.cost_usd or 0 for one in records))
    for name, arm in tally.arms.items():
        own = [one for one in records if one.arm == name]
        scored = [one for one in own if one.status == "scored"]
        assert arm.scored == len(scored)
        assert arm.excluded == sum(one.status == "excluded" for one in own)
        assert sum(arm.errored.values()) == len(own) - arm.scored - arm.excluded
        assert arm.wire == sum(one.errors.get("wire", 0) for one in scored)
        assert arm.timeouts == sum(one.stop == "timeout" for one in scored)
        assert (arm.accuracy is None) == (not scored)
        if arm.accuracy is not None:
            mean, low, high = arm.accuracy
            assert mean == pytest.approx(sum(one.accuracy for one in scored) / len(scored))
            assert 0 <= low <= mean <= high <= 1
            assert low < high


def test_errored_trials_are_told_apart_by_the_first_words_of_the_reason(named):
    tally = ProgressCounts(named("a"))
    for reason in ("provider: 500", "provider: no\nreply", "scorer exact: KeyError: 'x'", ""):
        tally.finished(record("a", status="errored", reason=reason))
    assert tally.arms["a"].errored == Counter({"provider": 2, "scorer exact": 1, "unknown": 1})


def test_reasons_without_end_are_not_kept_without_end(named):
    tally = ProgressCounts(named("a"))
    for number in range(500):
        tally.finished(record("a", status="errored", reason=f"{number} " * 100))
    assert sum(tally.arms["a"].errored.values()) == 500
    assert len(tally.arms["a"].errored) <= MAX_KINDS + 1
    assert max(map(len, tally.arms["a"].errored)) <= MAX_KIND_CHARS


# --- a run that is gone on with ---


class Stopping(Unwatched):
    """Ctrl-C after so many trials."""

    def __init__(self, after: int) -> None:
        self.left = after

    def finished(self, record: Record) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_run_that_is_gone_on_with_counts_both(tmp_path, capsys):
    config = CompareConfig(loops=LOOPS, suite="arithmetic", tasks=10, mlflow=False, runs=tmp_path, budget={"calls": 10_000})
    first = prepare(config)
    with contextlib.suppress(KeyboardInterrupt):
        run(first, Stopping(12))
    again = reopen(first.folder)
    begun = ProgressCounts(again)
    assert begun.before + begun.total == 30
    assert begun.before >= 12
    assert sum(arm.scored for arm in begun.arms.values()) == begun.before
    with watching(again, quiet=False) as seen:
        run(again, seen)
    assert isinstance(seen, ProgressCounts)
    assert [arm.scored for arm in seen.arms.values()] == [10, 10, 10]
    assert [arm.right for arm in seen.arms.values()] == [arm.right for arm in ProgressCounts(reopen(first.folder)).arms.values()]
    line = capsys.readouterr().err.splitlines()[-1]
    assert f"done={begun.total}/{begun.total} run=30/30 " in line
    whole = ProgressCounts(reopen(first.folder))
    assert whole.spent.calls == seen.spent.calls
    assert whole.total == 0
    assert f" left_calls={10_000 - seen.spent.calls} " in line


def test_an_errored_trial_that_is_tried_again_counts_once(tmp_path):
    experiment = prepare(CompareConfig(loops=LOOPS[:1], suite="arithmetic", tasks=10, mlflow=False, runs=tmp_path))
    name, task = experiment.arms[0].name, experiment.tasks[0].id
    with Journal(experiment.folder) as journal:
        journal.append(record(name, task=task, status="errored", reason="provider: 500"), b"{}")
        journal.append(record(name, task=experiment.tasks[1].id, stop="finished", scores={"accuracy": 1.0}), b"{}")
    again = reopen(experiment.folder)
    tally = ProgressCounts(again)
    assert (tally.before, tally.total) == (1, 9)
    assert not tally.arms[name].errored
    with watching(again, quiet=True) as quiet:
        run(again, quiet)
    ended = ProgressCounts(reopen(experiment.folder))
    assert (ended.before, ended.total, ended.arms[name].scored) == (10, 0, 10)


# --- the screen ---

EVIL = st.text(st.sampled_from("ab \x1b[2J\x07\x9b\r\n\t\u202e\x00é漢"), min_size=1, max_size=30)
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def frame(view: progress.LiveView, width: int, height: int) -> list[str]:
    """What a terminal of that size would show, its styles left out."""
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=True, legacy_windows=False)
    with console.capture() as shown:
        console.print(view, end="")
    return shown.get().splitlines()


@settings(deadline=None)
@given(
    st.lists(EVIL, min_size=1, max_size=60, unique=True),
    st.integers(20, 200),
    st.integers(5, 60),
    EVIL,
    st.sampled_from([{}, {"calls": 5, "tokens": 10**9, "seconds": 4000.0}]),
)
@example([f"a design with a long name, number {number}" for number in range(48)], 80, 24, "x", {})
def test_the_view_fits_any_screen_and_shows_no_control(named, names, width, height, reason, budget):
    view = progress.LiveView(named(names, **budget), Live())
    for name in names:
        view.finished(record(name, status="errored", reason=reason))
        view.finished(record(name, errors={"wire": 1}, stop="timeout"))
    shown = frame(view, width, height)
    assert len(shown) <= height - 1
    assert not CONTROLS.search("\n".join(shown))
    if width >= 60:
        assert f"{2 * len(names):,}/" in shown[0]
    if width >= 40:
        assert any(re.match(r"… and \d+ more arms", line) for line in shown) == (len(names) > height - 4)


def test_arms_with_trouble_come_first_where_not_all_fit(named):
    names = [f"arm {number}" for number in range(48)]
    view = progress.LiveView(named(names), Live())
    for name in names:
        view.finished(record(name, scores={"accuracy": 1.0}))
    view.finished(record("arm 40", status="errored", reason="provider: gone"))
    shown = frame(view, 100, 24)
    assert re.fullmatch(r"arm 40 +1 +1.000 \[0.\d\d, 1.00\] +errored 1 \(1 × provider\) *", shown[2])
    assert shown[3].startswith("arm 0 ")
    assert "accuracy so far 1.000 to 1.000" in shown[-2]


# --- lines ---


@settings(deadline=None)
@given(EVIL, EVIL, EVIL)
def test_a_line_is_one_line_whatever_names_and_reasons_say(named, name, reason, note):
    lines = progress._Lines(named([name]))
    lines.finished(record(name, status="errored", reason=reason))
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard):
        lines.noted(note)
        lines.end()
        lines.end()
    said = heard.getvalue()
    assert said.count("\n") == 2
    assert not CONTROLS.search(said)
    assert re.fullmatch(r'note: .*\nprogress: done=1/10 .*\| arm=".*" n=0 accuracy=- errored=1 reasons=".*"\n', said)


def test_a_line_comes_each_minute(named, monkeypatch, capsys):
    lines = progress._Lines(named("a"))
    for elapsed_s, said in ((0.0, 0), (59.0, 0), (60.0, 1), (5000.0, 1)):
        monkeypatch.setattr(ProgressCounts, "elapsed_s", elapsed_s)
        assert lines.draw() == 60.0
        assert capsys.readouterr().err.count("progress: ") == said


def test_a_line_is_not_repeated_once_all_trials_have_ended(named, monkeypatch, capsys):
    lines = progress._Lines(named("a"))
    monkeypatch.setattr(ProgressCounts, "elapsed_s", 60.0)
    for ended in range(lines.total + 1):
        assert lines.draw() > 0
        assert lines.draw() > 0
        assert capsys.readouterr().err.count(f"done={ended}/") == (1 if ended == lines.total else 2)
        lines.finished(record("a"))


def test_a_line_about_many_arms_tells_of_those_with_trouble_only(named, capsys):
    lines = progress._Lines(named([f"arm {number}" for number in range(10)]))
    lines.say()
    lines.finished(record("arm 7", status="errored", reason="provider: 500"))
    lines.say()
    calm, trouble = capsys.readouterr().err.splitlines()
    assert calm.endswith(" | arms=10")
    assert trouble.endswith(' | arm="arm 7" n=0 accuracy=- errored=1 reasons="1 × provider" | other_arms=9')


def test_dollars_are_shown_where_there_are_any_and_nominal_ones_where_they_differ(named, capsys):
    lines = progress._Lines(named("a"))
    lines.finished(record("a", input_tokens=1000, calls={"decide": 2}))
    lines.say()
    lines.finished(record("a", cost_usd=0.25, nominal_usd=0.25))
    lines.say()
    lines.finished(record("a", cost_usd=0.0, nominal_usd=0.5))
    lines.say()
    first, second, third = capsys.readouterr().err.splitlines()
    assert " calls=2 tokens=1000 |" in first
    assert " dollars=0.2500 |" in second
    assert " dollars=0.2500 nominal=0.7500 |" in third


def test_quiet_says_alone_what_an_interrupted_run_waits_for(named, capsys):
    with watching(named("a"), quiet=True) as seen:
        seen.noted("a worker died")
        seen.finished(record("a"))
        assert capsys.readouterr() == ("", "")
        seen.interrupted("4 trials that are under way end first;\nCtrl-C again ends the run at once")
    assert capsys.readouterr() == ("", "note: 4 trials that are under way end first; Ctrl-C again ends the run at once\n")


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_seconds_are_shown_as_on_a_clock(seconds, shown):
    assert clock(seconds) == shown


# --- a real terminal ---

WATCHED = """
import sys, time
from pathlib import Path
from whichloop.reports.progress.trials import watching
from whichloop.runs.config import CompareConfig
from whichloop.experiments.compare.prepare import prepare
from whichloop.metrics.record import Record

arms = int(sys.argv[2])
loops = tuple(f"bare(max_steps={number + 1})" for number in range(arms))
made = prepare(CompareConfig(loops=loops, suite="arithmetic", tasks=20, mlflow=False, runs=Path(sys.argv[1])))
with watching(made, quiet=False) as progress:
    began = time.monotonic()
    for number in range(100):
        name = made.arms[number % arms].name
        evil = "provider\\x1b[31mred\\x07: gone"
        progress.finished(Record(name, "s", "d", "t", 0, 0, "errored" if number % 10 == 0 else "scored", reason=evil))
        if number == 50:
            progress.noted("worker 2 died\\x1b]0;title\\x07 of signal 9")
        time.sleep(0.01)
    took_s = time.monotonic() - began
print(took_s)
"""


def on_a_terminal(folder: Path, arms: int, height: int) -> tuple[float, bytes]:
    """Seconds that it took, and all that the terminal was sent."""
    shown, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, 100, 0, 0))
    (folder / "watched.py").write_text(WATCHED)
    command = [sys.executable, "-m", "watched", str(folder), str(arms)]
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    pipes: dict[str, Any] = {"stdin": terminal, "stdout": subprocess.PIPE, "stderr": terminal}
    with Prepared(command, cwd=folder, env=known | {"TERM": "xterm-256color"}, **pipes) as child:
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # Linux: the other end was closed
            while piece := os.read(shown, 65_536):
                seen += piece
        os.close(shown)
        assert child.stdout is not None
        took = child.stdout.read()
    assert child.returncode == 0, seen
    return float(took), seen


UP = re.compile(rb"(?:\x1b\[1A\x1b\[2K)+")


@pytest.mark.thorough
@pytest.mark.parametrize(("arms", "height"), [(3, 40), pytest.param(48, 24, marks=pytest.mark.slow), (48, 10)])
def test_a_terminal_is_redrawn_in_place_a_few_times_a_second(tmp_path, arms, height):
    took_s, seen = on_a_terminal(tmp_path, arms, height)
    redrawn = UP.findall(seen)
    assert 2 <= len(redrawn) <= 2 * took_s / progress.MAX_STILL_S + 3  # few, however the machine stutters
    assert max(map(len, redrawn)) // len(b"\x1b[1A\x1b[2K") < height
    assert b"100/" in seen
    assert seen.count(rb"worker 2 died\x1b]0;title\x07 of signal 9") == 1
    for sent in (b"\x1b]0;", b"\x07", b"\x1b[31mred"):
        assert sent not in seen
    assert rb" provider\x1b[31m" in seen
    assert re.search(rb"\x1b\[\?25h", seen)  # the cursor is back


# --- a long run ---


def test_reasons_of_errored_trials_are_words_in_quotation_marks(named, capsys):
    lines = progress._Lines(named(["a"]))
    for reason in ('a "tool" broke: x', 'a "tool" broke: y', "provider: 500"):
        lines.finished(record("a", status="errored", reason=reason))
    lines.say()
    assert capsys.readouterr().err.endswith(' errored=3 reasons="2 × a \\"tool\\" broke; 1 × provider"\n')
