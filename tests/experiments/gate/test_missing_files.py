"""A file that is not there is told with the setting that names it, and with how to have it back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.gate.data.damaged import PUT_IT_BACK, missing_files_told
from whichloop.protocol.cured_error import CuredError

SETTINGS = {"data": "rows.jsonl", "profiles": ("clean", "own.toml"), "suite": "jsonl(data='more.jsonl')", "repeats": 3}
NAMED = {"rows.jsonl": "data", "own.toml": "profiles", "more.jsonl": "suite"}


def told(file: str | None) -> CuredError:
    with pytest.raises(CuredError) as raised, missing_files_told(SETTINGS, "the test"):
        raise FileNotFoundError(2, "No such file or directory", file)
    return raised.value


@pytest.mark.parametrize("file", NAMED)
def test_the_setting_that_names_a_missing_file_is_told(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = told(file)
    assert error.lines == [f"{file}: no such file, and the test names it as {NAMED[file]}", f"  {PUT_IT_BACK}"]


OTHERS = [None, "", "3", "rows", "ows.jsonl", "else.jsonl"]


@given(
    st.tuples(st.sampled_from(OTHERS), st.just(FileNotFoundError))
    | st.tuples(st.sampled_from([*OTHERS, *NAMED]), st.sampled_from([PermissionError, IsADirectoryError, ValueError]))
)
def test_an_error_about_any_other_file_and_any_other_error_stay_as_they_are(case):
    file, kind = case
    raised = kind(2, "No such file or directory", file)
    with pytest.raises(kind) as found, missing_files_told(SETTINGS, "the test"):
        raise raised
    assert found.value is raised


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("is_removal_staged", [False, True])
def test_the_command_takes_back_what_git_has(tmp_path, monkeypatch, is_removal_staged):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("kept")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "one"]):
        subprocess.run(["git", *command], check=True)
    if is_removal_staged:
        subprocess.run(["git", "rm", "-q", "rows.jsonl"], check=True)
    else:
        Path("rows.jsonl").unlink()
    error = told("rows.jsonl")
    assert error.lines[1] == "  take it back from git:"
    subprocess.run(error.commands[0].split(), check=True, capture_output=True)
    assert Path("rows.jsonl").read_text() == "kept"
    assert told("own.toml").commands == ()
