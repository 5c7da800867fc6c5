"""DSPy's traps, each with our program: what its optimizers swallow, share, cut, freeze or begin twice."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from tests.experiments.optimize.compiles.conftest import Bench, Proposer, Tiny
from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram, PredictorCall
from whichloop.experiments.optimize.compiling import OptimizerFailed, SearchOver, Workshop
from whichloop.experiments.optimize.optimizer import optimizer_named
from whichloop.experiments.optimize.rollouts import Rollouts
from whichloop.protocol import Optimizable, Program, own_prompt
from whichloop.protocol.names import Spec, parse_spec
from whichloop.runs.built_in import builtin_names, options_of
from whichloop.runs.registry import find, make_loop

pytestmark = pytest.mark.thorough


class Stop(BaseException):
    """As a budget that is used up."""


def raising(error: BaseException, at: int) -> Callable[[Program, int, int], float]:
    """A rule that raises from its n-th rollout on."""
    asked = []

    def rule(program: Program, task: int, draw: int) -> float:
        asked.append(task)
        if len(asked) >= at:
            raise error
        return float(task % 2)

    return rule


@pytest.mark.parametrize(("at", "kind", "threads"), [(1, Stop, 3), (4, KeyboardInterrupt, 1), (4, SearchOver, 3)])
def test_what_is_no_exception_ends_every_compile(spec: str, kind: type[BaseException], at: int, threads: int) -> None:
    if "Labeled" in spec:
        pytest.skip("it runs nothing")
    bench = Bench(raising(kind("used up"), at))
    with pytest.raises(kind, match="used up"):
        bench.compile(spec, threads=threads)
    assert len(bench.rollouts) < at + threads
    time.sleep(0.02)
    assert len(bench.rollouts) < at + threads  # nothing goes on behind our back


def compiled(rollouts: Rollouts, spec: str, proposer: Any) -> Program:
    """A compile over real rollouts of a real loop; half of the tasks train, half dev."""
    examples = {
        split: [
            dspy.Example(query=task.query.full_text, task=name, answer=task.expected).with_inputs("query", "task")
            for name, (where, task) in rollouts.tasks.items()
            if where == split
        ]
        for split in ("train", "dev")
    }
    student = LoopProgram(rollouts.arm.loop, runner=rollouts)
    return optimizer_named(parse_spec(spec)).compile(Workshop(student, examples["train"], examples["dev"], lm_of(proposer)))


def known_calls(rollouts: Rollouts) -> list[tuple[PredictorCall, ...]]:
    return [rollout.calls for future in rollouts._futures.values() if (rollout := future.result()) is not None]


def fields_of(demo: Any) -> dict[str, Any]:
    return {name: value for name, value in demo.items() if name != "augmented"}


@pytest.mark.parametrize("spec", ["BootstrapFewShot(max_labeled_demos=6)", "SIMBA(bsize=4, num_candidates=3, max_steps=3)"])
def test_a_demonstration_holds_nothing_of_later_steps(spec: str, rollouts_of: Any) -> None:
    rollouts = rollouts_of("bare", "teachable", 12)
    made = compiled(rollouts, spec, Proposer("Give numbers to tools as they stand."))
    runs = known_calls(rollouts)
    for calls in runs:
        talks = [json.loads(call.inputs["conversation"]) for call in calls]
        for call, talk, later in zip(calls, talks, talks[1:], strict=False):
            assert later[: len(talk)] == talk
            assert later[len(talk)] == {"role": "assistant", "content": call.outputs["reply"]}
    prompt = made["decide"]
    whole = [fields_of(demo) for demo in prompt.demos if prompt.is_whole(demo)]
    known = [{**call.inputs, **call.outputs} for calls in runs for call in calls]
    assert whole
    assert all(demo in known for demo in whole)


@pytest.mark.parametrize("name", builtin_names("loop"))
def test_no_two_predictors_of_a_design_are_one_to_gepa(name: str) -> None:
    inner = {"loop": "phased"} if "loop" in options_of(find("loop", name)) else {}
    loop = make_loop(Spec(name, inner))
    assert isinstance(loop, Optimizable)
    predictors = LoopProgram(loop, []).predictors()
    for place, one in enumerate(predictors):
        assert not any(one.signature.equals(other.signature) for other in predictors[:place])


def test_ctrl_c_waits_for_no_rollout(spec: str) -> None:
    if "Labeled" in spec:
        pytest.skip("it runs nothing")
    reached, released, waited_out = threading.Event(), threading.Event(), threading.Event()

    def rule(program: Program, task: int, draw: int) -> float:
        if task < 6:  # of train: GEPA's dev tasks are rolled out from the main thread, these are not
            reached.set()
            if not released.wait(8):
                waited_out.set()
        return 0.0

    def press() -> None:
        reached.wait(60)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press).start()
    bench = Bench(rule)
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.compile(spec, threads=2)
        assert not waited_out.is_set()
    finally:
        released.set()
    time.sleep(0.05)
    assert len([task for task, _ in bench.rollouts if int(task[1:]) < 6]) <= 2  # what was waiting is not begun


def test_what_runs_when_a_compile_ends_is_waited_for() -> None:
    ended = []
    others = threading.Event()

    def rule(program: Program, task: int, draw: int) -> float:
        if task == 6:
            others.wait(8)
            raise Stop("used up")
        others.set()
        time.sleep(0.1)
        ended.append(task)
        return 0.0

    bench = Bench(rule)
    with pytest.raises(Stop):
        bench.compile("GEPA(max_metric_calls=99)", threads=3)
    begun = [task for task, _ in bench.rollouts if task != "t6"]
    assert 1 <= len(ended) == len(begun) <= 2


RULES: dict[str, tuple[Callable[[], Any], str, int]] = {
    "rollout": (lambda: raising(KeyError("no such task"), 3), "in a rollout: KeyError: 'no such task'", 2),
    "metric": (lambda: lambda program, task, draw: "not a number", "in the metric: ValueError: could not convert string", 11),
}
"""Where the exception is raised: the rule, what is said of it, and how many rollouts there may be beside those under way."""


@pytest.mark.parametrize(("where", "threads"), [("rollout", 3), ("metric", 1)])
def test_an_exception_ends_the_compile_and_is_no_score(spec: str, where: str, threads: int) -> None:
    if "Labeled" in spec:
        pytest.skip("it runs nothing")
    rule, said, most = RULES[where]
    bench = Bench(rule())
    with pytest.raises(OptimizerFailed, match=said):
        bench.compile(spec, threads=threads)
    assert len(bench.rollouts) <= most + threads


@pytest.mark.parametrize("spec", ["COPRO", "MIPROv2(num_candidates=3, num_trials=2)"])
def test_proposals_that_cannot_be_read_end_a_compile_that_needs_them(spec: str) -> None:
    bench = Bench(proposer=Proposer(readable=False))
    with pytest.raises(OptimizerFailed, match="failed to parse") as raised:
        bench.compile(spec)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("spec", ["GEPA(max_metric_calls=30)", "SIMBA(bsize=4, num_candidates=3, max_steps=2, max_demos=0)"])
def test_proposals_that_cannot_be_read_are_told_where_the_search_goes_on(spec: str, tmp_path: Path) -> None:
    """DSPy gives the program that it began with, as if all were well; why stands in its log."""
    bench = Bench(proposer=Proposer(readable=False))
    own = bench.student.program
    assert bench.compile(spec, log=tmp_path / "dspy.log").program == own
    assert "failed to parse" in (tmp_path / "dspy.log").read_text()


@pytest.mark.parametrize(
    "spec", ["LabeledFewShot", "BootstrapFewShot", "BootstrapFewShotWithRandomSearch(num_candidate_programs=0)"]
)
def test_no_instructions_stay_none_and_a_program_that_dspy_calls_compiled_is_not_frozen(spec: str) -> None:
    bench = Bench()
    bench.loop = Tiny({"decide": own_prompt("", "reply")})
    student = bench.student
    student._compiled = True
    made = optimizer_named(parse_spec(spec)).compile(bench.workshop(student=student))["decide"]
    assert (made.instructions, bool(made.demos)) == ("", True)
    assert {program["decide"].instructions for program in bench.programs} <= {""}
