"""Changed lines that no trial came to: which lines changed, which hold code of functions, and of which files they are known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.run import Experiment, prepare, run_apart
from whichloop.experiments.gate import Baseline, bless, read_run
from whichloop.experiments.gate.lines import (
    MAX_SOURCE,
    changed_lines,
    digests_of_files,
    line_digests,
    unrun_lines,
    with_lines_watched,
)
from whichloop.protocol.json_text import short_digest
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
    assert changed_lines(line_digests(text_of(new)), text_of(new)) == set()
    assert changed_lines("", text_of(new)) == set(range(1, len(new) + 1))
    added = changed_lines(line_digests(text_of(old)), text_of([*old, "added()"]))
    assert added == {len(old) + 1}


def test_comments_change_no_line_and_what_looks_like_one_does():
    code = "def f():\n    try:\n        g()\n    except E:  # it may\n        return 1\n"
    said = line_digests(code)
    assert changed_lines(said, code.replace("# it may", "# as it happens")) == set()
    assert changed_lines(said, code.replace("  # it may", "")) == set()
    assert changed_lines(line_digests("a = '# one'\n"), "a = '# two'\n") == {1}


TEXT = "a = 1\n"


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the working directory, which alone is searched."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("sys.path", [])
    return tmp_path


LOOP = """from dataclasses import dataclass
from whichloop.loops.bare import Bare
{imports}

@dataclass(frozen=True)
class Mine(Bare):
    async def run(self, *arguments):
        ended = await super().run(*arguments)
        {more}
        return ended
"""


class Project:
    """A loop of the user's own, in a module of a new name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, f"own_{folder.name}"
        self.file = f"{self.name}.py"
        self.write("pass")

    def write(self, more: str, imports: str = "") -> None:
        (self.folder / self.file).write_text(LOOP.format(more=more, imports=imports))

    def prepared(self) -> Experiment:
        config: dict[str, Any] = {"loops": (f"{self.name}:Mine",), "profiles": ("clean",), "suite": "arithmetic(size=1)"}
        return prepare(CompareConfig(**config, runs=self.folder / "runs", mlflow=False), is_compared=False)

    def blessed(self) -> Baseline:
        experiment = self.prepared()
        assert run_apart(experiment, Unwatched()) == ""
        return bless(read_run(experiment.folder))

    def unrun(self, baseline: Baseline) -> dict[str, tuple[str, ...]] | None:
        """None where no file is watched."""
        blessed = {name: digest for arm in baseline.arms.values() for name, digest in arm.files.items()}
        experiment = with_lines_watched(self.prepared(), blessed, baseline.lines)
        assert run_apart(experiment, Unwatched()) == ""
        return None if experiment.lines is None else unrun_lines(experiment, baseline.lines)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


OUTSIDE = ("../own.py", "pack/../../own.py", "{folder}/own.py", "{folder}/here/own.py", "pack/../own.py")
ODD = ("pipe.py", "folder.py", "pipe_behind_a_link.py", "device.py", "no\0name.py", "\ud800.py", "")


def test_a_name_that_leads_out_of_the_folders_to_no_regular_file_or_to_a_large_one_is_left_out_and_nothing_waits_for_it(around):
    """A run from elsewhere names its files as it likes, and a match would tell that a file of this machine holds this text."""
    for file in ("own.py", "here/own.py"):
        (around / file).write_text(TEXT)
    (around / "here" / "pack").mkdir()
    assert digests_of_files({name.format(folder=around): short_digest(TEXT) for name in OUTSIDE}) == {}
    assert digests_of_files({"own.py": short_digest(TEXT)}) == {"own.py": line_digests(TEXT)}
    assert digests_of_files({"own.py": short_digest("a = 2\n")}) == {}, "it is no longer as it was run"
    os.mkfifo("pipe.py")
    Path("folder.py").mkdir()
    Path("pipe_behind_a_link.py").symlink_to("pipe.py")
    Path("device.py").symlink_to("/dev/zero")
    assert digests_of_files(dict.fromkeys(ODD, short_digest(""))) == {}
    for end in ("\n", "\r\n", "\r"):
        Path("own.py").write_bytes(f"a = 1{end}b = 2{end}".encode())
        assert digests_of_files({"own.py": short_digest("a = 1\nb = 2\n")}) == {"own.py": line_digests("a = 1\nb = 2\n")}
    for more in (0, 1):
        Path("own.py").write_text(text := "#" * (MAX_SOURCE + more))
        assert bool(digests_of_files({"own.py": short_digest(text)})) is (more == 0)


def test_changed_lines_that_no_trial_ran_are_told_also_of_a_new_file(project):
    baseline = project.blessed()
    assert project.unrun(baseline) is None
    never = 'if ended == "never":\n            nonsense()\n            nonsense()\n            # a comment\n            nonsense()'
    project.write(never)
    assert project.unrun(baseline) == {project.file: ("10–11", "13")}
    more = f"{project.name}_more"
    (project.folder / f"{more}.py").write_text("def more():\n    return 1\n")
    project.write("pass", imports=f"import {more}")
    assert project.unrun(baseline) == {f"{more}.py": ("2",)}
