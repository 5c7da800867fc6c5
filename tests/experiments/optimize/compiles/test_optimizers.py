"""Optimizers by name: options checked, compiles quiet, repeatable and without a trace outside; the user's own among them."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import optuna  # noqa: F401  # it sets up its logger when it is imported
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.optimize.compiles.conftest import SPECS, compiled_once
from tests.prepared import ran_in_fork
from whichloop.dspy_seam.program import LoopProgram
from whichloop.experiments.optimize.compiling import OptimizerFailed, Workshop, judge, score
from whichloop.experiments.optimize.optimizer import optimizer_named, optimizers, unread_proposals_warning
from whichloop.experiments.optimize.quiet_dspy import LOGGERS
from whichloop.protocol import Program, program_digest
from whichloop.protocol.names import Spec, parse_spec

if TYPE_CHECKING:
    from tests.experiments.optimize.compiles.conftest import Bench

pytestmark = pytest.mark.thorough

NAMES = [
    "LabeledFewShot",
    "BootstrapFewShot",
    "BootstrapFewShotWithRandomSearch",
    "MIPROv2",
    "COPRO",
    "SIMBA",
    "GEPA",
    "InferRules",
]


# --- names and options ---


def test_the_built_in_ones_are_dspys_by_its_names() -> None:
    assert sorted(optimizer.name for optimizer in optimizers()) == sorted(NAMES)
    assert all(hasattr(dspy, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_any_case_will_do(name: str) -> None:
    for written in (name, name.lower(), name.upper()):
        assert optimizer_named(parse_spec(written)).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_described_and_its_default_can_be_typed(name: str) -> None:
    plain = optimizer_named(Spec(name, {}))
    assert plain.summary.endswith(".")
    assert plain.options.keys() == plain.described.keys()
    for option in plain.described.values():
        assert option.doc.endswith("."), option.name
    assert json.loads(json.dumps(plain.options)) == plain.options
    typed = {key: "none" if value is None else value for key, value in plain.options.items()}
    assert optimizer_named(Spec(name, typed)) == plain


@pytest.mark.parametrize("name", NAMES)
def test_dspy_knows_the_options(name: str) -> None:
    """A version of DSPy that drops or renames one is noticed here."""
    kind = getattr(dspy, name)
    known = {*inspect.signature(kind.__init__).parameters, *inspect.signature(kind.compile).parameters}
    if name == "InferRules":
        known |= {*inspect.signature(dspy.BootstrapFewShot.__init__).parameters}
    assert optimizer_named(Spec(name, {})).options.keys() <= known


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Miprov3", "unknown optimizer 'Miprov3'; did you mean 'MIPROv2'? known: BootstrapFewShot"),
        ("randomsearch", "did you mean 'BootstrapFewShotWithRandomSearch'? "),
        ("xyz", "unknown optimizer 'xyz'; known: BootstrapFewShot"),
        ("copro(breath=3)", "optimizer COPRO: unknown option 'breath'; did you mean 'breadth'?"),
        ("copro(breadth=many)", "optimizer COPRO: breadth: Input should be a valid integer"),
        ("copro(breadth=1)", "optimizer COPRO: breadth must be at least 2, not 1"),
        ("labeledfewshot(k=0)", "optimizer LabeledFewShot: k must be at least 1"),
        ("simba(bsize=0)", "bsize must be at least 1"),
        ("simba(temperature_for_sampling=nan)", "temperature_for_sampling must be at least 0.01, not nan"),
        ("bootstrapfewshot(metric_threshold=80)", "metric_threshold must be above 0 and at most 1, not 80"),
        ("mipROv2(metric_threshold=0)", "metric_threshold must be above 0 and at most 1, not 0"),
        ("gepa(auto=tiny)", "optimizer GEPA: auto: Input should be 'light', 'medium' or 'heavy'"),
        ("gepa(auto=light, max_metric_calls=9)", "max_metric_calls and auto say the same: give one"),
        ("mipROv2(auto=light, num_trials=9)", "auto sets num_candidates and num_trials: give it, or them"),
        ("mipROv2(max_bootstrapped_demos=0)", "max_bootstrapped_demos=0 needs max_labeled_demos=0"),
        ("copro@file.json", "optimizer copro: @file.json is for loops"),
        ("json:dumps", "optimizer json:dumps needs obj: give json:dumps(obj=…)"),
        ("json:JSONDecoder", "it must be a class with a compile"),
        ("json:decoder", "it must be a class with a compile"),
        ("no.such:Thing", "optimizer 'no.such:Thing': no module named 'no'"),
        ("dspy:COPRO(metric=3)", "optimizer dspy:COPRO: metric is not an option: whichloop sets it"),
        ("dspy:COPRO(depht=3)", "optimizer dspy:COPRO: unknown option 'depht'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        optimizer_named(parse_spec(spec))
    assert "\n" not in str(raised.value)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"MIPROv2 needs optuna, which is not installed: pip install .*\[optimize\]"):
        optimizer_named(Spec("MIPROv2", {}))


# --- metrics ---


@given(value=st.floats(0, 1))
def test_the_score_is_the_rollouts_and_in_bootstrapping_whether_it_is_full(value: float) -> None:
    prediction = dspy.Prediction(score=value, feedback="Why.")
    assert score(None, prediction) == value
    assert score(None, prediction, []) is (value == 1)
    judged = judge(None, prediction, None, "decide", [])
    assert (judged.score, judged.feedback) == (value, "Why.")
    assert sum([judged, judged]) == 2 * value


# --- every compile ---


def outside() -> tuple[Any, ...]:
    """What a compile must leave as it is."""
    dspy_settings = {key: dspy.settings.config[key] for key in ("lm", "adapter", "trace", "callbacks", "num_threads", "max_errors")}
    logs = [(logger.handlers, logger.propagate, logger.level) for logger in map(logging.getLogger, LOGGERS)]
    printing = [name for name, module in [*sys.modules.items()] if name.startswith(("dspy.", "gepa")) and "print" in vars(module)]
    tqdm = vars(sys.modules["dspy.utils.parallelizer"])["tqdm"]
    return (
        dspy_settings,
        logs,
        printing,
        tqdm,
        builtins.print,
        sys.stdout,
        sys.stderr,
        warnings.filters[:],
        threading.active_count(),
    )


def test_a_compile_is_quiet_changes_its_parts_alone_and_nothing_outside(spec: str, bench: Bench, capfd: Any) -> None:
    optimizer = optimizer_named(parse_spec(spec))
    workshop = bench.workshop()
    own, before = workshop.student.program, outside()
    made = optimizer.compile(workshop)
    assert (*capfd.readouterr(),) == ("", "")
    assert bench.warned == []
    assert outside() == before
    assert type(made) is LoopProgram
    assert made is not workshop.student
    assert workshop.student.program == own
    changed = {
        part for name in own for part in ("instructions", "demos") if getattr(made.program[name], part) != getattr(own[name], part)
    }
    assert changed
    assert changed <= optimizer.changes
    assert bool(bench.proposer.requests) == optimizer.proposes
    assert made.program.keys() == own.keys()
    assert (made._compiled, [predictor.lm for predictor in made.predictors()]) == (False, [None, None])


def test_what_improves_is_found(spec: str, bench: Bench) -> None:
    """The rule is taught by two demonstrations or a hint: whatever an optimizer changes, rollouts go better."""
    made = compiled_once(spec)
    tasks = range(6, 11)
    before, after = (sum(bench.rule(program, task, 0) for task in tasks) for program in (bench.student.program, made.program))
    if "Labeled" in spec:
        assert after == before  # examples show no steps
    else:
        assert after == len(tasks) > before


def test_equal_seeds_give_equal_programs_by_equal_rollouts(spec: str, bench: Bench) -> None:
    first, second = compiled_once(spec), bench.compile(spec, seed=0)
    assert program_digest(first.program) == program_digest(second.program)
    assert [*first.rollouts] == bench.rollouts
    assert [*first.programs] == bench.programs
    assert [request.as_dict() for request in first.requests] == [request.as_dict() for request in bench.proposer.requests]


def test_the_seed_counts(spec: str, bench_of: Any) -> None:
    def found(seed: int) -> tuple[str, str]:
        bench = bench_of()
        return program_digest(bench.compile(spec, seed=seed).program), str(bench.rollouts)

    known = compiled_once(spec)
    first = program_digest(known.program), str([*known.rollouts])
    assert any(found(seed) != first for seed in range(1, 4))


def test_dev_tasks_that_are_few_make_no_minibatch(bench_of: Any) -> None:
    few, none = bench_of(), bench_of()
    few.compile("MIPROv2(num_candidates=3, num_trials=6)")
    none.compile("MIPROv2(num_candidates=3, num_trials=6, minibatch=false)")
    assert few.rollouts == none.rollouts


def test_rollouts_that_nothing_looks_at_leave_no_trace(bench_of: Any) -> None:
    traces = []

    def rule(program: Program, task: int, draw: int) -> float:
        traces.append(dspy.settings.trace)
        return 0.0

    bench = bench_of(rule)
    bench.compile("COPRO(breadth=2, depth=1)")
    assert traces
    assert {*traces} == {None}


def test_another_process_gives_the_same_programs(tmp_path: Path) -> None:
    """Whatever the order of its sets: the hash seed of the fork was drawn."""
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


def compiled_in_another_thread(bench: Bench, spec: str) -> LoopProgram:
    made: list[LoopProgram] = []
    thread = threading.Thread(target=lambda: made.append(bench.compile(spec, threads=2)))
    thread.start()
    thread.join()
    return made[0]


def compiled_in_an_event_loop(bench: Bench, spec: str) -> LoopProgram:
    async def inside() -> LoopProgram:
        return bench.compile(spec, threads=2)

    return asyncio.run(inside())


@pytest.mark.parametrize("compiled", [compiled_in_another_thread, compiled_in_an_event_loop])
def test_two_threads_give_what_one_gives(spec: str, bench: Bench, compiled: Callable[[Bench, str], LoopProgram]) -> None:
    """Whether they are asked for in a thread beside the first one, or where an event loop runs."""
    one = compiled_once(spec)
    assert program_digest(one.program) == program_digest(compiled(bench, spec).program)
    assert sorted(one.rollouts, key=str) == sorted(bench.rollouts, key=str)


@pytest.mark.parametrize(
    "spec",
    [
        "LabeledFewShot(sample=false)",
        "BootstrapFewShot(max_rounds=2, max_labeled_demos=0, metric_threshold=0.5)",
        "BootstrapFewShotWithRandomSearch(num_candidate_programs=0, stop_at_score=10)",
        "MIPROv2(num_candidates=2)",
        "MIPROv2(max_bootstrapped_demos=0, max_labeled_demos=0, num_trials=3)",
        "MIPROv2(num_candidates=3, num_trials=6, minibatch_size=2, minibatch_full_eval_steps=2)",
        "MIPROv2(num_trials=2, data_aware_proposer=false, program_aware_proposer=false, tip_aware_proposer=false)",
        "SIMBA(bsize=99, num_candidates=1, max_steps=1, max_demos=0)",
        "GEPA(max_full_evals=2, component_selector=all, candidate_selection_strategy=current_best, use_merge=false)",
        "InferRules(num_candidates=1, max_labeled_demos=0, metric_threshold=0.5)",
    ],
)
def test_options_reach_dspy_in_a_form_that_it_takes(spec: str, bench: Bench) -> None:
    made = bench.compile(spec)
    parts = optimizer_named(parse_spec(spec)).changes
    own = bench.student.program
    for name, prompt in made.program.items():
        assert "instructions" in parts or prompt.instructions == own[name].instructions
        assert "demos" in parts or prompt.demos == own[name].demos


@pytest.mark.thorough
@pytest.mark.parametrize(
    "spec",
    [
        "MIPROv2(auto=light)",
        *(pytest.param(spec, marks=pytest.mark.slow) for spec in ("GEPA(auto=light)", "MIPROv2", "SIMBA", "InferRules")),
        *(name for name in NAMES if name not in ("MIPROv2", "SIMBA", "InferRules")),
    ],
)
def test_default_and_automatic_sizes_run_through(spec: str, bench: Bench) -> None:
    assert type(bench.compile(spec)) is LoopProgram


def test_without_dev_tasks_train_decides_and_without_train_tasks_nothing_runs(spec: str, bench: Bench) -> None:
    assert type(bench.compile(spec, dev=[])) is LoopProgram
    with pytest.raises(OptimizerFailed, match="there is no train task"):
        bench.compile(spec, train=[])


def test_a_program_begins_where_it_was_left(spec: str, bench: Bench) -> None:
    """Its own instructions are what an optimizer begins with, and nothing of DSPy's state keeps it from being optimized again."""
    first = bench.compile(spec)
    bench.programs.clear()
    again = optimizer_named(parse_spec(spec)).compile(bench.workshop(student=first))
    begun = first.program["decide"].instructions
    assert not bench.programs or begun in [program["decide"].instructions for program in bench.programs]
    assert again.program.keys() == first.program.keys()


def test_a_proposal_that_came_to_nothing_is_told(bench: Bench) -> None:
    own = bench.student.program
    assert unread_proposals_warning(0, [own]) == ""
    assert "made requests of its own (3)" in unread_proposals_warning(3, [own, own])
    assert unread_proposals_warning(3, [own, bench.compile("COPRO(breadth=2, depth=1)").program]) == ""


# --- the user's own ---

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
        import dspy
        made = student.deepcopy()
        if self.gives == "dspy":
            return dspy.Predict("question -> answer")
        if self.gives == "fewer":
            del made.say
        elif self.gives == "object":
            made.decide.demos = [dspy.Example(conversation=object(), reply="x")]
        else:
            return None
        return made
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
    assert optimizer.summary == "Adds a word. As an example."
    made = optimizer.compile(bench.workshop())
    assert made.program["decide"].instructions == "Decide. quickly quickly"
    assert len(bench.rollouts) == 11


def test_a_function_that_makes_one_will_do(own_module: str, bench: Bench) -> None:
    optimizer = optimizer_named(parse_spec(f"{own_module}:factory"))
    with pytest.raises(OptimizerFailed, match="'NoneType' object is not callable"):  # its metric
        optimizer.compile(bench.workshop())
    with pytest.raises(OptimizerFailed, match=r"it is a NoneType, which has no compile\(student, trainset=…\)"):
        optimizer.compile(bench.workshop(threads=2))


@pytest.mark.parametrize(
    "spec", ["dspy:BootstrapFewShotWithRandomSearch(num_candidate_programs=1)", "dspy:GEPA(max_metric_calls=20)"]
)
def test_dspys_own_classes_can_be_named_like_the_users(spec: str, bench: Bench) -> None:
    assert type(bench.compile(spec)) is LoopProgram


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


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ("none", "it gave a NoneType, not the program that it was handed, or a copy of it"),
        ("dspy", "it gave a Predict, not the program"),
        ("fewer", "it gave a program of the predictors decide, not decide, say"),
        ("object", "PydanticSerializationError: Unable to serialize unknown type"),
    ],
)
def test_what_is_no_program_is_refused(own_module: str, bench: Bench, gives: str, message: str) -> None:
    own = bench.student.program
    with pytest.raises(OptimizerFailed) as raised:
        bench.compile(f"{own_module}:Odd(gives={gives})")
    assert message in str(raised.value)
    assert bench.student.program == own


def test_a_bug_is_one_line_without_secrets(own_module: str, bench: Bench, capfd: Any) -> None:
    before = outside()
    with pytest.raises(OptimizerFailed) as raised:
        bench.compile(f"{own_module}:Failing")
    assert str(raised.value).startswith("own_teleprompters:Failing: KeyError: ")
    assert "sk-abc" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, KeyError)
    assert (*capfd.readouterr(),) == ("", "")
    assert outside() == before


def test_a_workshop_needs_no_more_than_its_student_and_tasks(bench: Bench) -> None:
    workshop = bench.workshop()
    made = optimizer_named(Spec("BootstrapFewShot", {})).compile(Workshop(workshop.student, workshop.train, (), None))
    assert made.program["decide"].demos
