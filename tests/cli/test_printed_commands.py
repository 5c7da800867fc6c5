"""The commands that a gate prints: the real command line parses each, and finds every option that the run had."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from whichloop.cli import gate as gate_command
from whichloop.cli import running
from whichloop.cli.init import write_project
from whichloop.experiments.gate import read_baseline
from whichloop.experiments.gate.ended_run import config_again
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.store.files import read_manifest_json

NOT_ASKED = ("name", "mlflow", "tracking_uri", "experiment", "concurrency", "workers", "engine", "address", "traces")
"""Settings that a baseline does not keep: how a run is called, where it is logged, and how fast it goes."""
BLESSED = [
    *("--profile", "flaky-tools", "--profile", "flaky-format", "--seed", "3", "--repeats", "2", "--max-tool-steps", "9"),
    *(
        "--trial-timeout",
        "20",
        "--tool-timeout",
        "4",
        "--trial-budget-calls",
        "30",
        "--budget-calls",
        "4000",
        "--runs",
        "else where",
    ),
]
OWN = ["--suite", "jsonl", "--data", "loop_tasks.jsonl", "--tools", "loop_tools", "--tasks", "4"]
SIZED = ["--suite", "arithmetic(size=5)"]
RULES = ["--margin", "0.015", "--metric", "tokens=0.125", "--alpha", "0.04", "--on-undecided", "fail"]
OTHER_DRAWS = ["--seed", "7", "--repeats", "1", "--trial-timeout", "15"]


class Parsed(ValueError):
    """A command line was parsed; nothing was run."""


@pytest.fixture
def parsed(whichloop, monkeypatch) -> Callable[[str], Any]:
    """Return what the command line makes of a printed command: a configuration to run, or for `bless` a file and what it holds."""

    def call(line: str) -> Any:
        found: list[Any] = []

        def caught(*what: Any, **_: Any) -> NoReturn:
            found.append(what)
            raise Parsed("parsed")

        with monkeypatch.context() as patch:
            patch.setattr(running, "prepare", caught)
            patch.setattr(gate_command, "prepare_again", caught)
            patch.setattr(gate_command, "write_baseline", caught)
            patch.setattr("whichloop.experiments.gate.ended_run.judge", caught)
            program, *words = shlex.split(line, comments=True)
            ended = whichloop(*words)
        assert (program, ended.code, ended.err) == ("whichloop", 2, "error: parsed\n"), ended.err
        return found[0]

    return call


def config_of(folder: str | Path) -> CompareConfig:
    """The configuration of a run."""
    return config_from(read_manifest_json(Path(folder))["config"], "the run")


def asked(config: CompareConfig, *but: str) -> dict[str, Any]:
    return {name: value for name, value in config.model_dump(mode="json").items() if name not in (*NOT_ASKED, *but)}


def bless_a_run(whichloop: Any, here: Path, suite: list[str]) -> str:
    """Bless a run of many options, and return its directory."""
    write_project(here, "bare")
    made = whichloop("compare", "--no-mlflow", "-q", "--loop", "bare", *BLESSED, *suite, "--json")
    assert made.code == 0, made.err
    assert whichloop("bless", "latest", "--runs", "else where", "--output", "a b.json").code == 0
    return str(made.json["run"])


@pytest.mark.parametrize(
    "suite",
    [OWN, pytest.param(SIZED, marks=pytest.mark.slow)],
    ids=["tasks of one's own", "a suite of any size"],
)
def test_each_command_of_an_undecided_gate_has_every_option_of_its_run(whichloop, here, parsed, suite):
    blessed = bless_a_run(whichloop, here, suite)
    own_code = ["--allow", "loop_tools"] if suite is OWN else []
    changed = ["--loop", "bare(max_consecutive_errors=2)"]
    command = ["gate", "--baseline", "a b.json", "--runs", "else where", "-q", *own_code, *changed, *RULES, *OTHER_DRAWS]
    before = {*(here / "else where").iterdir()}
    ended = whichloop(*command, "-v")
    assert (ended.code, ended.out.partition(":")[0]) == (1, "undecided"), ended.err
    (new,) = {*(here / "else where").iterdir()} - before
    now = config_of(new)
    paired, compare, bless, again = (
        line.strip() for line in ended.out.split("\n") if line.startswith("    whichloop ") and " show " not in line
    )
    assert asked(parsed(compare)[0], "suite", "tasks") == asked(config_of(blessed), "suite", "tasks")
    path, _ = parsed(bless)
    assert path == Path("a b.json")
    known = read_baseline(here / "a b.json")
    assert asked(config_again(known, *parsed(again)[1:]), "cassette_mode") == asked(now, "cassette_mode")
    own_draws = config_again(known, *parsed(paired)[1:])
    assert (own_draws.seed, own_draws.repeats, own_draws.trial_timeout_s, own_draws.loops) == (3, 2, 15, now.loops)
    for line in (paired, again):
        words = shlex.split(line)
        assert all(f"{flag} {value}" in " ".join(words) for flag, value in zip(RULES[::2], RULES[1::2], strict=True))
