"""Bad input to a question is one clear line that names the setting, whatever is passed and wherever."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whichloop
from tests.cases import cases
from whichloop.experiments.gate import bless, write_baseline
from whichloop.loops import Bare
from whichloop.metrics.answers import Judgement
from whichloop.reports.dataframes import Loaded
from whichloop.runs.config import CompareConfig

QUESTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(whichloop, name) for name in ("compare", "gate", "optimize", "size", "why")
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return whichloop.compare(["bare", "finish"], tasks=3, profiles=["clean"], mlflow=False, runs=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def baseline(run: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("baselines") / "b.json"
    write_baseline(path, bless(run.results))
    return path


class Hostile:
    """An object that no code of ours may trust."""

    def __repr__(self) -> str:
        raise RuntimeError("no description")


class Lines:
    def __repr__(self) -> str:
        return "two\nlines"


WRONG = st.one_of(
    st.integers(-3, -1),
    st.just(float("nan")),
    st.binary(max_size=3).map(lambda value: value + b"\xff"),  # no text: pydantic reads b"3" as a number and b"f" as false
    st.complex_numbers(max_magnitude=3),
    st.builds(object),
    st.builds(Hostile),
    st.builds(Lines),
    st.sets(st.integers(), max_size=2),
    st.lists(st.one_of(st.integers(), st.builds(Lines)), min_size=1, max_size=2),
    st.dictionaries(st.one_of(st.integers(), st.text(max_size=3)), st.builds(object), min_size=1, max_size=2),
    st.just(int),
    st.just(ValueError("an error")),
)
"""Values that fit no setting of any question, but for those in `FITS`."""
OWN = {  # settings beside the named parameters that are not fields of the configuration
    "compare": (),
    "gate": (),
    "optimize": ("budget", "proposer_budget", "proposer", "train", "dev", "threads"),
    "size": (),
    "why": (),
}
FIELDS = {name: [*CompareConfig.model_fields] if name in ("compare", "compare", "--loop", "optimize") else [] for name in QUESTIONS}
PARAMETERS = [
    (name, parameter)
    for name, function in QUESTIONS.items()
    for parameter in dict.fromkeys(
        [*(p for p in inspect.signature(function).parameters if p != "settings"), *OWN[name], *FIELDS[name]]
    )
]
FITS: dict[str, Callable[[Any], bool]] = {
    "runs": lambda value: isinstance(value, Path),
    "seed": lambda value: isinstance(value, int) or value != value,  # any whole number is a seed
}


def in_order(question: str, run: Loaded, baseline: Path, runs: Path) -> dict[str, Any]:
    """Arguments of a call that would succeed."""
    small: dict[str, Any] = {"runs": runs, "mlflow": False, "tasks": 2}
    return {
        "compare": {"loops": ["bare"], **small},
        "gate": {"baseline": baseline, "runs": runs},
        "optimize": {"loops": ["bare"], "optimizer": "LabeledFewShot(k=1)", "train": 2, "dev": 2, "repeats": 1, **small},
        "size": {"run": run},
        "why": {"run": run, "a": "bare", "b": "finish"},
    }[question]


@pytest.mark.parametrize(("question", "parameter"), PARAMETERS)
@settings(max_examples=cases(4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=WRONG)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    question: str, parameter: str, value: Any, run: Loaded, baseline: Path, tmp_path: Path
) -> None:
    if parameter in FITS and FITS[parameter](value):
        return
    runs = tmp_path / token_hex(4)
    arguments = in_order(question, run, baseline, runs) | {parameter: value}
    with pytest.raises(ValueError, match=parameter) as raised:
        QUESTIONS[question](**arguments)
    said = str(raised.value)
    assert "\n" not in said
    assert "--" not in said
    assert not runs.exists()


ASK: Any = whichloop
"""Without the types that a type checker would refuse wrong values by."""


class MyLoop(Bare):
    pass


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run, path: ASK.compare(loops=None), "^loops: None is not a loop"),
        (lambda run, path: ASK.compare(["bare"], task=3), "^task: there is no such setting; did you mean 'tasks'"),
        (lambda run, path: ASK.compare(["bare"], tools=[len]), "^tools: "),
        (lambda run, path: ASK.compare(suite=run.arms), "whichloop.suite_from_frame makes a suite of a DataFrame, or of a list"),
        (lambda run, path: ASK.compare(["bare"], vary={"parse_retries": 3}), "^vary.parse_retries: .*got 3$"),
        (lambda run, path: ASK.compare(vary={"max_steps": [5, 9]}), "^vary: it is about the options of one loop"),
        (lambda run, path: run.why(Bare()), "^a: give a name, as a text, got Bare.*; whichloop.why"),
        (lambda run, path: run.show(1), "^trial: give a name, as a text, got 1$"),
        (lambda run, path: ASK.bless(run, 3), "^baseline: .*, got 3$"),
        (lambda run, path: ASK.gate(path, seeds=3), "^seeds: Unexpected keyword argument"),
        (lambda run, path: ASK.gate(path, metrics={"accuracy": "x"}), "^metrics.accuracy: .*, got 'x'$"),
        (lambda run, path: ASK.gate(path, run, seed=3), "^run: loops, seed, allow, base_url and cassette are for a new run"),
        (lambda run, path: ASK.size(run, power="x"), "^power: .*, got 'x'$"),
        (lambda run, path: ASK.load("latest", runs=3), "^runs: give a text or a path, got 3$"),
        (lambda run, path: ASK.why(run, "bare", MyLoop()), r"no arm '\S+:MyLoop'; there are bare/clean, finish/clean$"),
        (lambda run, path: ASK.why(run, "bare", 3), "^b: 3 is not a loop"),
        (lambda run, path: ASK.optimize(["bare"], budget={"foo": 1}), "^budget.foo: there is no such setting"),
        (lambda run, path: ASK.optimize(["bare"], split="dev"), "^split is not a setting of an optimization"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_setting(
    call: Callable[[Loaded, Path], Any], message: str, run: Loaded, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError), match=message) as raised:
        call(run, baseline)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_scorer_may_judge_a_suite_by_name(tmp_path: Path) -> None:
    def half(judgement: Judgement) -> float:
        return 0.5

    found = whichloop.compare(["bare"], suite="arithmetic", scorer=half, tasks=3, mlflow=False, runs=tmp_path)
    assert set(found.trials["accuracy"]) == {0.5}
