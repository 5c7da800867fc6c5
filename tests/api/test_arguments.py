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
    name: getattr(whichloop, name) for name in ("compare", "ablate", "gate", "optimize", "size", "why")
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
    "ablate": ("design", "max_trials", "interactions", "scorer"),
    "gate": ("seed", "runs", "allow", "base_url", "cassette"),
    "optimize": ("budget", "proposer_budget", "proposer", "train", "dev", "threads", "amortize", "scorer", "runs", "seed"),
    "size": (),
    "why": (),
}
FIELDS = {name: [*CompareConfig.model_fields] if name in ("compare", "ablate", "optimize") else [] for name in QUESTIONS}
PARAMETERS = [
    (name, parameter)
    for name, function in QUESTIONS.items()
    for parameter in dict.fromkeys(
        [*(p for p in inspect.signature(function).parameters if p != "settings"), *OWN[name], *FIELDS[name]]
    )
]
FITS: dict[str, Callable[[Any], bool]] = {
    "seed": lambda value: isinstance(value, int) or value != value,  # any whole number is a seed
}


def in_order(question: str, run: Loaded, baseline: Path, runs: Path) -> dict[str, Any]:
    """Arguments of a call that would succeed."""
    small: dict[str, Any] = {"runs": runs, "mlflow": False, "tasks": 2}
    return {
        "compare": {"loops": ["bare"], **small},
        "ablate": {"loop": "finish", "factors": {"parse_retries": [0, 1]}, **small},
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
        (lambda run, path: ASK.compare(loops=Bare()), r"^loops: give a list, such as \['bare'"),
        (lambda run, path: ASK.compare(loops=Bare), r"^loops: give a list, .*, got <class"),
        (lambda run, path: ASK.compare(loops=None), "^loops: give a list, .*, got None$"),
        (lambda run, path: ASK.compare(profiles=3), "^profiles: give a list, .*, got 3$"),
        (lambda run, path: ASK.compare(["bare"], provider=3), "^provider: .*, got 3$"),
        (lambda run, path: ASK.compare(["bare"], model="x"), "^unknown setting 'model'; did you mean 'models'"),
        (lambda run, path: ASK.compare(["bare"], task=3), "^unknown setting 'task'; did you mean 'tasks'"),
        (lambda run, path: ASK.compare(["bare"], step_limit=3), "^unknown setting 'step_limit'; did you mean 'max_tool_steps'"),
        (lambda run, path: ASK.gate(path / "none.json", seeds=3), "^unknown setting 'seeds'; did you mean 'seed'"),
        (lambda run, path: ASK.why(run, taks="x"), "^unknown setting 'taks'; did you mean 'task'"),
        (lambda run, path: ASK.compare(["bare"], suite=3), "^suite: 3 is not a Suite, .*, nor a name$"),
        (lambda run, path: ASK.compare(["bare"], suite="q.csv"), "^unknown suite 'q.csv'; .*--suite 'csv' --data 'q.csv'$"),
        (lambda run, path: run.why(Bare()), "^a: give a name, as a text, got Bare.*; whichloop.why"),
        (lambda run, path: run.why("bare", 3), "^b: give a name"),
        (lambda run, path: run.why(task=3), "^task: give a name, as a text, got 3$"),
        (lambda run, path: run.show(1), "^trial: give a name, as a text, got 1$"),
        (lambda run, path: run.trace(1), "^trial: give a name, as a text, got 1$"),
        (lambda run, path: run.loop(Bare), "^name: give a name, as a text, got <class"),
        (lambda run, path: ASK.compare(["bare"], data="x.csv"), "^suite arithmetic takes no --data file; --suite csv reads it$"),
        (lambda run, path: ASK.compare(["bare"], suite="csv", data="x.csv"), r"^data: x.csv: No such file or directory$"),
        (lambda run, path: ASK.compare(["bare"], suite="csv", data="x.csv", scorer="exact"), "^data: x.csv: No such file"),
        (lambda run, path: ASK.compare(["bare"], profiles=["x.toml"]), "^profiles: x.toml: No such file or directory$"),
        (lambda run, path: ASK.compare(["bare"], runs="/proc/xx"), "^runs: /proc/xx: No such file or directory$"),
        (lambda run, path: ASK.compare(["bare"], tools="x"), "^suite arithmetic brings its own tools; leave --tools out$"),
        (lambda run, path: ASK.ablate("finish", ["parse_retries"]), "^factors: give a mapping from options to values"),
        (lambda run, path: ASK.ablate("finish", {"parse_retries": [0, object()]}), "^factors: parse_retries: "),
        (lambda run, path: ASK.ablate(3, {"parse_retries": [0, 1]}), "^loop: 3 is not a loop"),
        (lambda run, path: ASK.ablate("finish", {"parse_retries": [0, 1]}, cells="full"), "^unknown setting 'cells'.*design"),
        (lambda run, path: ASK.ablate("finish", {"parse_retries": [0, 1]}, design=3), "^design: give 'full' or 'fractional'"),
        (lambda run, path: ASK.ablate("finish", {"parse_retries": [0, 1]}, loops=["bare"]), "^loops: an ablation varies one"),
        (lambda run, path: ASK.bless(run, 3), "^baseline: give the path of a baseline file, got 3$"),
        (lambda run, path: ASK.bless(3, "b.json"), "^run: give a run: .*, got 3$"),
        (lambda run, path: ASK.gate(path, loops="bare"), "^loops: give a list"),
        (lambda run, path: ASK.gate(path, loops=Bare()), "^loops: give a list"),
        (lambda run, path: ASK.gate(path, metrics=["accuracy"]), "^metrics: give a mapping from metrics to margins"),
        (lambda run, path: ASK.gate(path, metrics={"accuracy": "x"}), "^metrics.accuracy: give a number, got 'x'$"),
        (lambda run, path: ASK.gate(3, run), "^baseline: give the path of a baseline file, got 3$"),
        (lambda run, path: ASK.gate(path, 3), "^run: give a run: .*, got 3$"),
        (lambda run, path: ASK.gate(path, allow="x:Y"), "^allow: give a list of names"),
        (lambda run, path: ASK.size(run, power="x"), "^power: give a number, got 'x'$"),
        (lambda run, path: ASK.size(None), "^run: give a run: .*, got None$"),
        (lambda run, path: ASK.compare([]), "^loops: the list is empty; leave it out for the default$"),
        (lambda run, path: ASK.compare(tools=[len]), "^tools: give the name of a module; whichloop.suite_from_frame"),
        (lambda run, path: ASK.compare(suite=run.arms), "whichloop.suite_from_frame makes a suite of a DataFrame, or of a list"),
        (
            lambda run, path: ASK.compare(suite=[{"question": "q"}]),
            r"^suite: .* of a DataFrame, or of a list of dicts, a row each$",
        ),
        (
            lambda run, path: ASK.ablate("finish", {"parse_retries": [0, 2]}, "arithmetic"),
            "^'arithmetic': name every argument behind loop and factors, such as suite=…$",
        ),
        (lambda run, path: ASK.load(3), "^run: give a text or a path, got 3$"),
        (lambda run, path: ASK.load("latest", runs=3), "^runs: give a text or a path, got 3$"),
        (lambda run, path: ASK.why(3), "^run: give a run: .*, got 3$"),
        (lambda run, path: ASK.why(run, "bare", MyLoop()), r"no arm '\S+:MyLoop'; there are bare/clean, finish/clean$"),
        (lambda run, path: ASK.why(run, "bare", 3), "^b: 3 is not a loop"),
        (
            lambda run, path: ASK.optimize(["bare"], budget={"foo": 1}),
            "^unknown field 'budget.foo'; known: calls, tokens, dollars",
        ),
        (
            lambda run, path: ASK.optimize(["bare"], foo=1),
            "^unknown setting 'foo'; known: optimizer, budget, ",
        ),
        (lambda run, path: ASK.optimize(["bare"], profile="clean", profiles=["x"]), "^profiles: .*pass one as profile$"),
        (lambda run, path: ASK.optimize(["bare"], models=["x"]), "^models: .*pass one as model$"),
        (lambda run, path: ASK.optimize(["bare"], test=5), "^test: pass it as tasks"),
        (lambda run, path: ASK.optimize(["bare"], split="dev"), "^unknown setting 'split'"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_setting(
    call: Callable[[Loaded, Path], Any], message: str, run: Loaded, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        call(run, baseline)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_scorer_may_judge_a_suite_by_name(tmp_path: Path) -> None:
    def half(judgement: Judgement) -> float:
        return 0.5

    found = whichloop.compare(["bare"], suite="arithmetic", scorer=half, tasks=3, mlflow=False, runs=tmp_path)
    assert set(found.trials["accuracy"]) == {0.5}
