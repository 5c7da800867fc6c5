"""What is handed over: bad input is one clear line that names the setting, and objects get names that lead back to them."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whichloop
from tests.cases import cases
from whichloop import session
from whichloop.api.objects import check_workers_can_import, loop_name, optimizer_name, profile_name, scorer_name, suite_name
from whichloop.datasets import arithmetic
from whichloop.experiments.gate import bless, write_baseline
from whichloop.loops import Bare, Finish, Microcompact, RepeatGuard
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.models.profiles import load_profile
from whichloop.protocol.names import own_object, parse_spec
from whichloop.reports.dataframes import Loaded
from whichloop.runs.config import CompareConfig
from whichloop.runs.registry import make_loop, make_suite

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
@settings(max_examples=cases(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        (lambda run, path: ASK.compare(suite=run.arms), "whichloop.suite_from_frame makes a suite of a DataFrame, or of a list"),
        (lambda run, path: ASK.compare(["bare"], vary={"parse_retries": 3}), "^vary.parse_retries: .*got 3$"),
        (lambda run, path: run.why(Bare()), "^a: give a name, as a text, got Bare.*; whichloop.why"),
        (lambda run, path: ASK.gate(path, seeds=3), "^seeds: Unexpected keyword argument"),
        (lambda run, path: ASK.gate(path, metrics={"accuracy": "x"}), "^metrics.accuracy: .*, got 'x'$"),
        (lambda run, path: ASK.gate(path, run, seed=3), "^run: loops, seed, allow, base_url and cassette are for a new run"),
        (lambda run, path: ASK.size(run, loops=["bear"]), "the run has no loop 'bear'; did you mean 'bare'"),
        (lambda run, path: ASK.load("latest", runs=3), "^runs: give a text or a path, got 3$"),
        (lambda run, path: ASK.why(run, "bare", MyLoop()), r"no arm '\S+:MyLoop'; there are bare/clean, finish/clean$"),
        (lambda run, path: ASK.optimize(["bare"], budget={"foo": 1}), "^budget.foo: there is no such setting"),
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


@given(retries=st.integers(0, 9), steps=st.integers(1, 99), form=st.sampled_from(["both", "xml", "off"]))
def test_the_name_of_a_design_with_options_makes_an_equal_one(retries: int, steps: int, form: Any) -> None:
    loop = Finish(parse_retries=retries, max_steps=steps, forced_finish=form)
    assert make_loop(parse_spec(loop_name(loop))) == loop


@pytest.mark.parametrize("wrapper", [RepeatGuard, Microcompact])
def test_a_loop_inside_another_is_named_with_it(wrapper: Any) -> None:
    loop = wrapper(loop=Finish(parse_retries=1))
    assert make_loop(parse_spec(loop_name(loop))) == loop


def test_a_class_of_a_function_is_kept_for_this_process() -> None:
    class Inner(Bare):
        pass

    name = loop_name(Inner)
    assert name.startswith(f"{session.__name__}:Inner")
    assert isinstance(make_loop(parse_spec(name)), Inner)


def test_a_suite_object_and_its_scorer_are_found_again() -> None:
    def half(judgement: Judgement) -> float:
        return 0.5

    suite = arithmetic.load(3)
    assert make_suite(parse_spec(suite_name(suite))) is suite
    judged = make_suite(parse_spec(suite_name(suite, half)))
    names = {task.scorer for task in judged.tasks}
    assert len(names) == 1
    assert scorer_named(names.pop()) is half
    assert [replace(task, scorer="") for task in judged.tasks] == [replace(task, scorer="") for task in suite.tasks]


def test_workers_refuse_what_stands_inside_a_loop() -> None:
    class Inner(Bare):
        pass

    inside = ["__main__:Inner", loop_name(Inner), loop_name(RepeatGuard(Inner()))]
    for names in ([f'repeat_guard(loop="{inside[0]}")'], [inside[1]], [inside[2]]):
        with pytest.raises(ValueError, match=r"^loops: Inner\w* lives in this process alone, .*: move it to a module, or leave"):
            check_workers_can_import("loops", names)
    with pytest.raises(ValueError, match=r"^suite: arithmetic\w* lives in this process alone"):
        check_workers_can_import("suite", [suite_name(arithmetic.load(3))])


class _Plain(Bare):
    """No options by which it could be made again."""

    def __init__(self, steps: int) -> None:
        super().__init__(max_steps=steps)


def test_an_object_has_the_same_name_at_every_call() -> None:
    loop, suite = _Plain(3), arithmetic.load(3)

    def half(judgement: Judgement) -> float:
        return 0.5

    def names() -> list[str]:
        return [loop_name(loop), loop_name(RepeatGuard(loop)), suite_name(suite), suite_name(suite, half), scorer_name(half)]

    first = names()
    assert len(set(first)) == len(first)
    assert names() == names() == first


def test_a_class_that_is_defined_again_takes_the_name_of_the_one_before() -> None:
    def cell(steps: int) -> type[Bare]:
        class Again(Bare):
            limit = steps

        return Again

    first, second = cell(1), cell(2)
    assert loop_name(first) == loop_name(second)
    assert getattr(make_loop(parse_spec(loop_name(second))), "limit", None) == 2


def test_the_session_does_not_grow_with_the_objects_that_are_gone() -> None:
    gc.collect()
    before = session.names()
    for _ in range(20):
        loop_name(_Plain(3))
        suite_name(arithmetic.load(3), lambda judgement: 0.5)
    gc.collect()
    assert session.names() == before


def test_a_scorer_that_is_defined_again_is_the_one_that_judges() -> None:
    def cell(score: float) -> Callable[[Judgement], float]:
        return lambda judgement: score

    scorer = cell(0.25)
    assert scorer_named(scorer_name(scorer)) is scorer
    name = scorer_name(scorer)
    del scorer
    gc.collect()
    other = cell(0.5)
    assert scorer_name(other) == name
    assert scorer_named(name) is other


def test_a_profile_object_is_named_or_written_to_a_file(tmp_path: Path) -> None:
    built_in = load_profile("teachable")
    assert profile_name(built_in, tmp_path) == "teachable"
    changed = built_in.model_copy(update={"rates": {"wire.empty": 1e-05}, "description": 'a "quoted"\ntext'})
    with pytest.raises(ValueError, match=r"^profiles: name: 'teachable' is a built-in profile, .*; choose another name$"):
        profile_name(changed, tmp_path)
    mine = changed.model_copy(update={"name": "mine"})
    written = profile_name(mine, tmp_path)
    assert written.startswith(str(tmp_path))
    assert load_profile(written) == mine
    assert profile_name(mine, tmp_path) == written


def test_an_optimizer_may_be_a_class_or_an_object() -> None:
    class Mine:
        def compile(self, student: Any, trainset: Any) -> Any:
            return student

    mine = Mine()
    name = optimizer_name(mine)
    assert own_object("optimizer", name)() is mine
    assert own_object("optimizer", optimizer_name(Mine)) is Mine
    name = optimizer_name(Mine())
    gc.collect()
    assert isinstance(own_object("optimizer", name)(), Mine)  # a run that is cut off is resumed with it
    with pytest.raises(ValueError, match=r"^optimizer: 3 is not a name, nor"):
        optimizer_name(3)
