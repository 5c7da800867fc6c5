"""Optimizers by name: options checked, compiles quiet, repeatable and without a trace outside; the user's own among them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import dspy
import optuna  # noqa: F401  # it sets up its logger when it is imported
import pytest
import tqdm  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from tests import core_only
from tests.experiments.optimize.compiles.conftest import SPECS, Bench, compiled_once
from tests.prepared import ran_in_fork
from whichloop._extras import EXTRA_OF, MissingExtra
from whichloop.dspy_seam.program import LoopProgram
from whichloop.experiments.optimize.compiling import LOGGERS, OptimizerFailed, judge, score
from whichloop.experiments.optimize.config import BESIDE_DSPY, check_packages, load_optimize_config
from whichloop.experiments.optimize.optimizer import BUILT_IN, optimizer_named
from whichloop.protocol import program_digest
from whichloop.protocol.names import Spec, parse_spec

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_one_is_dspys_of_its_name_in_any_case_with_options_that_dspy_knows(name: str) -> None:
    for written in (name, name.lower(), name.upper()):
        made = optimizer_named(parse_spec(written))
        assert (made.name, made.target) == (name, getattr(dspy, name))
    assert made.about.summary.endswith(".")
    assert made.options.keys() <= made.described.keys()
    assert json.loads(json.dumps(made.options)) == made.options
    assert optimizer_named(Spec(name, made.options)).options == made.options


@given(value=st.floats(0, 1))
def test_the_score_is_the_rollouts_and_in_bootstrapping_whether_it_is_full(value: float) -> None:
    prediction = dspy.Prediction(score=value, feedback="Why.")
    assert score(None, prediction) == value
    assert score(None, prediction, []) is (value == 1)
    judged = judge(None, prediction, None, "decide", [])
    assert (judged.score, judged.feedback) == (value, "Why.")


def outside() -> tuple[Any, ...]:
    """What a compile must leave as it is."""
    dspy_settings = {key: dspy.settings.config[key] for key in ("lm", "adapter", "trace", "callbacks", "num_threads", "max_errors")}
    logs = [(logger.handlers, logger.propagate, logger.level) for logger in map(logging.getLogger, LOGGERS)]
    gepa = sys.modules.get("dspy.teleprompt.gepa.gepa_utils")
    return (
        dspy_settings,
        logs,
        vars(tqdm.tqdm)["__init__"],
        gepa and vars(gepa)["ThreadPoolExecutor"],
        sys.stdout,
        sys.stderr,
        warnings.filters[:],
    )


def test_a_compile_is_quiet_changes_nothing_outside_finds_what_improves_and_gives_the_same_in_two_threads_where_an_event_loop_runs(
    spec: str, bench: Bench, capfd: Any, tmp_path: Path
) -> None:
    one = compiled_once(spec)
    capfd.readouterr()
    own, before, threads = bench.student.program, outside(), set(threading.enumerate())

    async def inside() -> LoopProgram:
        return bench.compile(spec, threads=2, log=tmp_path / "dspy.log")

    made = asyncio.run(inside()).program
    assert (*capfd.readouterr(),) == ("", "")
    assert bool((tmp_path / "dspy.log").read_text()) == ("Labeled" not in spec)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
    assert set(threading.enumerate()) <= threads
    assert (outside(), bench.student.program) == (before, own)
    assert program_digest(made) == program_digest(one.program) != program_digest(own)
    assert sorted(bench.rollouts, key=str) == sorted(one.rollouts, key=str)
    was, now = (sum(bench.rule(program, task, 0) for task in range(6, 11)) for program in (own, made))
    assert now == was if "Labeled" in spec else now == 5 > was  # whole examples show no steps


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[2], SPECS[5]])
def test_the_seed_counts(spec: str) -> None:
    def found(seed: int) -> tuple[str, str]:
        bench = Bench()
        return program_digest(bench.compile(spec, seed=seed).program), str(bench.rollouts)

    known = compiled_once(spec)
    assert any(found(seed) != (program_digest(known.program), str([*known.rollouts])) for seed in range(1, 4))


def test_another_process_gives_the_same_programs(tmp_path: Path) -> None:
    code = f"""
import importlib.util, sys
from whichloop.protocol import Program, program_digest
found = importlib.util.spec_from_file_location("shared", {str(Path(__file__).with_name("conftest.py"))!r})
shared = sys.modules["shared"] = importlib.util.module_from_spec(found)
found.loader.exec_module(shared)
print(*(program_digest(shared.Bench().compile(spec).program) for spec in shared.SPECS))
"""
    done = ran_in_fork(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [program_digest(compiled_once(spec).program) for spec in SPECS]


OWN = '''
class Own:
    """Adds a word. As an example."""
    def __init__(self, metric, seed, lm, word: str = "please", times: int = 1):
        self.word, self.times, self.given = word, times, (metric, seed, lm)
    def compile(self, student, *, trainset, valset):
        assert all(self.given[0](example, student(**example.inputs())) in (0.0, 1.0) for example in trainset + valset)
        made = student.deepcopy()
        text = made.decide.signature.instructions + f" {self.word}" * self.times
        made.decide.signature = made.decide.signature.with_instructions(text)
        print("own print")
        return made
def factory(threads):
    return Own(None, 0, None, "thanks") if threads == 1 else None
class Failing:
    def compile(self, student, *, trainset):
        raise KeyError("secret sk-abcdefghijklmnop1234", "of two\\nlines")
class Odd:
    def __init__(self, gives: str = "none"):
        self.gives = gives
    def compile(self, student, *, trainset):
        made = student.deepcopy()
        del made.say
        return made if self.gives == "fewer" else None
'''


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_teleprompters.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_teleprompters", raising=False)
    return "own_teleprompters"


def test_a_class_of_the_users_own_gets_what_it_takes(own_module: str, bench: Bench) -> None:
    optimizer = optimizer_named(parse_spec(f'{own_module}:Own(word="quickly", times=2)'))
    assert optimizer.options == {"word": "quickly", "times": 2}
    assert optimizer.described.keys() == {"word", "times"}
    made = optimizer.compile(bench.workshop())
    assert made["decide"].instructions == "Decide. quickly quickly"
    assert len(bench.rollouts) == 11


def test_a_plug_in_is_found_by_its_name(own_module: str, tmp_path: Path, bench: Bench) -> None:
    meta = tmp_path / "plugged-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n", encoding="utf-8")
    points = f"[whichloop.optimizers]\npolite = {own_module}:Own\nbroken = {own_module}:Nothing\n"
    (meta / "entry_points.txt").write_text(points, encoding="utf-8")
    assert bench.compile("polite").program["decide"].instructions == "Decide. please"
    with pytest.raises(ValueError, match="optimizer 'broken': loading own_teleprompters:Nothing failed: AttributeError"):
        optimizer_named(parse_spec("broken"))
    with pytest.raises(ValueError, match="did you mean 'polite'"):
        optimizer_named(parse_spec("polit"))


WRONG = {
    "Miprov3": "unknown optimizer 'Miprov3'; did you mean 'MIPROv2'? known: BootstrapFewShot",
    "copro(breath=3)": "optimizer COPRO: unknown option 'breath'; did you mean 'breadth'?",
    "mipROv2(num_trials=few)": "optimizer MIPROv2: num_trials: Input should be a valid integer",
    "copro@file.json": "optimizer copro: @file.json is for loops",
    "json:dumps": "optimizer json:dumps needs obj: give json:dumps(obj=…)",
    "json:decoder": "it must be a class with a compile",
    "dspy:COPRO(metric=3)": "optimizer dspy:COPRO: metric is not an option: whichloop sets it",
}


@pytest.mark.parametrize("spec", WRONG)
def test_what_is_wrong_is_said_in_a_line(spec: str) -> None:
    with pytest.raises(ValueError, match=re.escape(WRONG[spec])) as raised:
        optimizer_named(parse_spec(spec))
    assert "\n" not in str(raised.value)


def test_what_an_optimizer_needs_beside_dspy_is_told_with_the_one_extra_that_has_all_of_it_before_it_is_imported(
    monkeypatch,
) -> None:
    extras = core_only.project()["optional-dependencies"]
    assert {*BESIDE_DSPY} <= {name.lower() for name in BUILT_IN}
    for name, beside in BESIDE_DSPY.items():
        assert check_packages(name.upper()) == ("dspy", beside)
        assert "whichloop[dspy]" in extras[EXTRA_OF[beside]]
    assert check_packages("my_module:Mine") == check_packages("GEPA") == ("dspy",)
    for package_name in ("dspy", "optuna"):
        monkeypatch.setitem(sys.modules, package_name, None)
    with pytest.raises(MissingExtra, match=r"^optimizer MIPROv2 needs dspy, which is not installed: pip install .*\[optimize\]"):
        load_optimize_config(None, {"loops": ["bare"], "optimizer": "MIPROv2"})


FAILURES = {
    "Odd(gives=none)": "it gave a NoneType, not the program that it was handed, or a copy of it",
    "Odd(gives=fewer)": "it gave a program of the predictors decide, not decide, say",
    "Failing": "own_teleprompters:Failing: KeyError: ",
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_bug_or_what_is_no_program_is_one_line_without_secrets(own_module: str, bench: Bench, name: str, capfd: Any) -> None:
    own, before = bench.student.program, outside()
    with pytest.raises(OptimizerFailed) as raised:
        bench.compile(f"{own_module}:{name}")
    assert FAILURES[name] in str(raised.value)
    assert "sk-abc" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert name != "Failing" or isinstance(raised.value.__cause__, KeyError)
    assert (*capfd.readouterr(),) == ("", "")
    assert (bench.student.program, outside()) == (own, before)
