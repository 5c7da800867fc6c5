"""Loops, suites and scorers handed over as objects get names that lead back to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench import session
from loopbench.api.objects import check_workers_can_import, loop_name, scorer_name, suite_name
from loopbench.datasets import arithmetic
from loopbench.loops import Bare, Finish, Microcompact, RepeatGuard
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.scorers import scorer_named
from loopbench.protocol import Loop
from loopbench.protocol.names import parse_spec
from loopbench.runs.registry import make_loop, make_suite


@given(retries=st.integers(0, 9), steps=st.integers(1, 99), form=st.sampled_from(["both", "xml", "off"]))
def test_the_name_of_a_design_with_options_makes_an_equal_one(retries: int, steps: int, form: Any) -> None:
    loop = Finish(parse_retries=retries, max_steps=steps, forced_finish=form)
    assert make_loop(parse_spec(loop_name(loop))) == loop


def test_only_options_that_differ_from_their_defaults_are_named() -> None:
    assert loop_name(Bare()) == "bare"
    assert loop_name(Bare) == "bare"
    assert loop_name(Finish(parse_retries=0)) == "finish(parse_retries=0)"
    assert loop_name("phased(max_steps=3)") == "phased(max_steps=3)"


@pytest.mark.parametrize("wrapper", [RepeatGuard, Microcompact])
def test_a_loop_inside_another_is_named_with_it(wrapper: Any) -> None:
    loop = wrapper(loop=Finish(parse_retries=1))
    assert make_loop(parse_spec(loop_name(loop))) == loop


@dataclass(frozen=True)
class _Local(Bare):
    """Stands in a test module, which cannot be imported by name."""


def test_a_class_of_a_function_is_kept_for_this_process() -> None:
    class Inner(Bare):
        pass

    name = loop_name(Inner)
    assert name.startswith(f"{session.__name__}:Inner")
    assert isinstance(make_loop(parse_spec(name)), Inner)


def test_an_object_whose_options_are_unknown_is_kept_as_it_is() -> None:
    class Counting(Bare):
        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

    mine = Counting()
    assert make_loop(parse_spec(loop_name(mine))) is mine


def test_two_objects_of_one_name_are_kept_apart() -> None:
    def made(steps: int) -> Loop:
        class Same(Bare):
            pass

        return Same(max_steps=steps)

    one, two = made(2), made(3)
    first, second = loop_name(one), loop_name(two)
    assert first != second
    assert (make_loop(parse_spec(first)), make_loop(parse_spec(second))) == (one, two)


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


def test_a_function_that_makes_a_suite_is_named() -> None:
    assert suite_name(arithmetic.load) == "arithmetic"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loop_name(3), "loops: 3 is not a loop"),  # type: ignore[arg-type]
        (lambda: suite_name(3), "suite: 3 is not a Suite"),  # type: ignore[arg-type]
        (lambda: suite_name("arithmetic", "exact"), "scorer: it judges the tasks of a Suite object"),
        (lambda: suite_name(arithmetic.load, "exact"), "scorer: it judges the tasks of a Suite object"),
        (lambda: scorer_name(3), "scorer: 3 is not a function of a Judgement"),  # type: ignore[arg-type]
    ],
)
def test_what_is_none_of_them_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_what_lives_in_this_process_only_is_refused_for_workers() -> None:
    check_workers_can_import(["bare", "finish(parse_retries=0)", "package.module:Mine"])
    with pytest.raises(ValueError, match="MyLoop is defined in the running script or notebook"):
        check_workers_can_import(["__main__:MyLoop(max_steps=2)"])
    with pytest.raises(ValueError, match="Mine is defined in this process only"):
        check_workers_can_import(["bare", f"{session.__name__}:Mine"])
