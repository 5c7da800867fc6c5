"""The command that is likely to tell two loops apart: what it runs, and where none is told."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from whichloop.cli import running
from whichloop.cli.main import app
from whichloop.cli.render_answer import answer_lines
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.experiments.compare.verdict_old.sentence import DecidingRun, deciding_command
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched


def manifest(folder: Path, **config: Any) -> Any:
    return prepare(CompareConfig(loops=("bare", "finish(parse_retries=1)"), runs=folder, mlflow=False, **config)).manifest


def words(made: Any, tasks: int = 500) -> list[str]:
    arms = [arm.arm for arm in made.arms]
    return list(deciding_command(made, DecidingRun((arms[0], arms[len(arms) // 2]), tasks, 0.8)))


@pytest.fixture(scope="module")
def undecided(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish"),
        profiles=("flaky-format", "flaky-tools"),
        suite="arithmetic(size=24)",
        runs=tmp_path_factory.mktemp("runs"),
        mlflow=False,
    )
    made = prepare(config)
    run(made, Unwatched())
    return results(made.folder)


@pytest.mark.parametrize("width", [40, *(pytest.param(width, marks=pytest.mark.slow) for width in (80, 10_000))])
def test_the_command_in_an_answer_runs_as_it_stands(undecided, width, monkeypatch, tmp_path):
    lines = [line.plain for line in answer_lines(undecided, width)]
    begun = next(place for place, line in enumerate(lines) if line.startswith("whichloop compare"))
    ended = next(place for place in range(begun, len(lines)) if not lines[place].endswith("\\"))
    typed = shlex.split("\n".join(lines[begun : ended + 1]).replace("\\\n", " "))
    (told,) = (sentence.decides for sentence in answer(undecided.comparison).answer_sentences if sentence.decides is not None)
    seen: list[Experiment] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "carry_out", lambda made, *_: seen.append(made))
    app(typed[1:], standalone_mode=False)
    (made,) = seen
    assert {arm.info(made.suite.name).arm for arm in made.manifest.arms} == set(told.arms)
    assert len(made.tasks) == told.tasks
    assert made.manifest.seed != undecided.manifest.seed
    assert f"{told.tasks:,} tasks under {made.config.profiles[0]}" in " ".join(lines)


def test_it_keeps_what_decides_the_results(tmp_path):
    made = manifest(tmp_path, suite="errands(size=20)", profiles=("stubborn",), repeats=2, margin=0.05, seed=4)
    said = words(made)
    assert said[:6] == ["whichloop", "compare", "--loop", "bare", "--loop", "finish(parse_retries=1)"]
    assert said[6:] == [
        "--profile",
        "stubborn",
        "--suite",
        "errands(size=500)",
        "--seed",
        "5",
        "--repeats",
        "2",
        "--margin",
        "0.05",
    ]


@pytest.mark.parametrize("config", [{"split": "test"}, {"suite": "bfcl"}])
def test_none_is_told_where_it_would_not_say_it_all(tmp_path, config):
    made = manifest(tmp_path)
    made = made.model_copy(update={"config": made.config | config})
    assert words(made) == []
