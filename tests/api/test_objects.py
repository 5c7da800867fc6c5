"""Loops, suites and scorers handed over as objects get names that lead back to them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop import session
from whichloop.api.objects import check_workers_can_import, loop_name, optimizer_name, profile_name, scorer_name, suite_name
from whichloop.datasets import arithmetic
from whichloop.loops import Bare, Finish, Microcompact, RepeatGuard
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.models.profiles import load_profile
from whichloop.protocol import Loop
from whichloop.protocol.names import own_object, parse_spec
from whichloop.runs.permissions import allowed_code
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.store.files import RunError


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


def test_workers_refuse_what_stands_inside_a_loop() -> None:
    class Inner(Bare):
        pass

    with pytest.raises(ValueError, match=r"^loops: Inner is defined in the running script or notebook"):
        check_workers_can_import("loops", ['repeat_guard(loop="__main__:Inner")'])
    with pytest.raises(ValueError, match=r"^loops: Inner\w* is defined in a function.* move it to a module"):
        check_workers_can_import("loops", [loop_name(RepeatGuard(Inner())), loop_name(Inner)][1:])
    with pytest.raises(ValueError, match=r"^loops: Inner\w* is an object that worker processes cannot make again.* leave workers"):
        check_workers_can_import("loops", [loop_name(RepeatGuard(Inner()))])
    with pytest.raises(ValueError, match=r"^suite: arithmetic\w* is an object that worker processes cannot make again"):
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


def test_an_object_of_another_session_is_said_to_be_one(tmp_path: Path) -> None:
    name = "whichloop.session:OfAnother"
    said = "OfAnother'?,? (which )?was made in a session that has ended: put it in a module, or hand it to a new run"
    with pytest.raises(RunError, match=said):
        allowed_code(tmp_path, [name], [])
    with pytest.raises(ValueError, match=said):
        own_object("optimizer", name)
