"""Changed lines that no trial came to: which lines changed, which hold code of functions, and of which files they are known."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import Baseline, bless
from whichloop.experiments.gate.changes.changed_code import lines_of_functions, unrun_in_words
from whichloop.experiments.gate.data.line_digests import MAX_SOURCE, FollowedFile, changed_lines, digests_of_files, line_digests
from whichloop.experiments.gate.ended_run import with_lines_watched
from whichloop.protocol.digest import short_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "", "    return a", "else:", "c = '#'"]), max_size=12)


def text_of(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@given(old=LINES, new=LINES)
def test_the_lines_that_did_not_change_stand_in_the_old_file_in_their_order(old, new):
    changed = changed_lines(line_digests(text_of(old)), text_of(new))
    waiting = iter(old)
    assert all(line in waiting for number, line in enumerate(new, 1) if number not in changed)


@given(lines=LINES, at=st.integers(0, 12), more=st.integers(1, 3))
def test_added_lines_are_changed_and_others_only_where_lines_are_alike(lines, at, more):
    at = min(at, len(lines))
    now = text_of([*lines[:at], *[f"new_{number}()" for number in range(more)], *lines[at:]])
    changed, added = changed_lines(line_digests(text_of(lines)), now), set(range(at + 1, at + 1 + more))
    assert added <= changed
    assert added == changed or len(set(lines)) < len(lines)
    assert changed_lines(line_digests(now), now) == set()


def test_comments_change_no_line_and_what_looks_like_one_does():
    code = "def f():\n    try:\n        g()\n    except E:  # it may\n        return 1\n"
    said = line_digests(code)
    assert changed_lines(said, code.replace("# it may", "# as it happens")) == set()
    assert changed_lines(said, code.replace("  # it may", "")) == set()
    assert changed_lines(line_digests("a = '# one'\n"), "a = '# two'\n") == {1}


def test_all_lines_of_a_new_file_are_changed():
    assert changed_lines("", "a = 1\nb = 2\n") == {1, 2}


OWN = """import os


class A:
    x = 1

    def f(self):
        # a word
        def g():
            return 1

        return g
"""


def test_only_lines_of_functions_count_without_the_one_that_begins_each():
    assert lines_of_functions(compile(OWN, "a.py", "exec")) == {9, 10, 12}


def test_spans_of_lines_are_named_with_their_file():
    files = [FollowedFile("a.py", "/a.py", (3, 4, 5, 9), (6,)), FollowedFile("c.py", "/c.py", (), (1,))]
    several, one = unrun_in_words([*files, FollowedFile("b.py", "/b.py", (7,), ())])
    assert several == "no trial ran the changed lines 3–5 and 9 of a.py, so nothing is known of what they do"
    assert one == "no trial ran the changed line 7 of b.py, so nothing is known of what it does"


def test_lines_are_kept_of_files_that_are_as_they_were_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("a = 1\n")
    known = digests_of_files({"own.py": short_digest("a = 1\n"), "gone.py": "0" * 12})
    assert known == {"own.py": line_digests("a = 1\n")}
    assert digests_of_files({"own.py": short_digest("a = 2\n")}) == {}


TEXT = "a = 1\n"


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the working directory, which alone is searched."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("sys.path", [])
    return tmp_path


@pytest.mark.parametrize("name", ["../own.py", "pack/../../own.py", "{folder}/own.py", "{folder}/here/own.py", "pack/../own.py"])
def test_a_name_that_leads_out_of_the_folders_is_left_out(around, name):
    """A run from elsewhere names its files as it likes, and a match would tell that a file of this machine holds this text."""
    for file in ("own.py", "here/own.py"):
        (around / file).write_text(TEXT)
    (around / "here" / "pack").mkdir()
    assert digests_of_files({name.format(folder=around): short_digest(TEXT)}) == {}
    assert digests_of_files({"own.py": short_digest(TEXT)}) != {}


def test_what_is_no_regular_file_is_left_out_and_nothing_waits_for_it(around):
    os.mkfifo("pipe.py")
    Path("folder.py").mkdir()
    Path("pipe_behind_a_link.py").symlink_to("pipe.py")
    Path("device.py").symlink_to("/dev/zero")
    names = ("pipe.py", "folder.py", "pipe_behind_a_link.py", "device.py", "no\0name.py", "\ud800.py", "")
    assert digests_of_files(dict.fromkeys(names, short_digest(""))) == {}


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_larger_than_source_code_is_left_out(around, more):
    text = "#" * (MAX_SOURCE + more)
    Path("own.py").write_text(text)
    assert bool(digests_of_files({"own.py": short_digest(text)})) is (more == 0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_breaks_of_every_system_are_read_as_python_reads_them(around, end):
    Path("own.py").write_bytes(f"a = 1{end}b = 2{end}".encode())
    text = Path("own.py").read_text()
    assert digests_of_files({"own.py": short_digest(text)}) == {"own.py": line_digests(text)}


# --- of which files the changed lines are known ---

_NUMBERS = itertools.count()
LOOP = "from whichloop.loops.bare import Bare\n\n\nclass Mine(Bare):\n    pass\n"


class Project:
    """A loop of the user's own, in a module of a new name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"own_unrun_{next(_NUMBERS)}"
        self.file = f"{self.name}.py"
        self.write(self.file, LOOP)

    def write(self, file: str, text: str) -> None:
        (self.folder / file).write_text(text)

    def prepared(self) -> Experiment:
        config: dict[str, Any] = {"loops": (f"{self.name}:Mine",), "profiles": ("clean",), "suite": "arithmetic(size=1)"}
        return prepare(CompareConfig(**config, runs=self.folder / "runs", mlflow=False))

    def finished(self) -> Path:
        experiment = self.prepared()
        assert run(experiment, Unwatched()) == ""
        return experiment.folder

    def watched(self, baseline: Baseline) -> set[str]:
        """The files whose lines a gate's run would tell."""
        lines = with_lines_watched(self.prepared(), baseline).lines
        return set() if lines is None else {*lines.files}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    monkeypatch.syspath_prepend(tmp_path)
    return Project(tmp_path)


def test_a_changed_file_and_a_new_one_are_followed(project):
    baseline = bless(results(project.finished()))
    assert project.watched(baseline) == set()
    more = f"{project.name}_more.py"
    project.write(more, "def more():\n    return 1\n")
    project.write(project.file, f"import {project.name}_more\n{LOOP}")
    assert project.watched(baseline) == {project.file, more}


@pytest.mark.parametrize("older", [True, False])
def test_nothing_is_said_of_a_file_that_the_baseline_has_without_its_lines(project, older):
    """Else every line would count as changed: with a baseline of before there were lines, and one blessed after the change."""
    folder = project.finished()
    baseline = bless(results(folder)).model_copy(update={"lines": {}}) if older else None
    project.write(project.file, f"{LOOP}\n    changed = True\n")
    baseline = baseline or bless(results(folder))
    assert (project.file in baseline.files, baseline.lines) == (True, {})
    assert project.watched(baseline) == set()


def test_a_file_that_only_the_suite_named_is_not_new(project):
    baseline = bless(results(project.finished()))
    more = f"{project.name}_more.py"
    project.write(more, "def more():\n    return 1\n")
    project.write(project.file, f"import {project.name}_more\n{LOOP}")
    for files in ({"files": {more: "0" * 12}}, {"imports": {more: "0" * 12}}):
        known = baseline.model_copy(update={"suite": baseline.suite.model_copy(update=files)})
        assert project.watched(known) == {project.file}
