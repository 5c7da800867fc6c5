"""What is known of a built-in loop without importing it: which options its source defines."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from whichloop.loops.bare import Bare
from whichloop.runs.built_in import builtin_names, has_option, options_in, options_of
from whichloop.runs.registry import find

ODD = """
from typing import Literal

EXAMPLE = '''
class Mine:
    in_a_string: int = 1
'''


class Other:
    of_another_class: int = 1


class Mine(Other):
    '''Has options.

    in_its_docstring: int = 1
    '''

    # in_a_comment: int = 1
    plain: int = 1
    over_lines: Literal[
        "text",  # a comment, with "quotes"
        "native",
    ] = "text"
    without_default: str
    unannotated = 1

    def run(self) -> None:
        in_a_method: int = 1


LOOP = Mine
"""


def test_only_the_annotated_fields_of_the_offered_class_are_options() -> None:
    assert list(options_in(ODD)) == ["plain", "over_lines", "without_default"]


@pytest.mark.parametrize("source", ["", "LOOP = 7", "from .loop import Mine\nLOOP = Mine", "class Mine:\n    plain: int = 1"])
def test_a_module_without_the_class_of_its_loop_defines_no_options(source: str) -> None:
    assert options_in(source) == {}


@pytest.mark.parametrize("loop", builtin_names("loop"))
def test_every_option_that_the_source_defines_is_one_that_the_class_takes(loop: str) -> None:
    names = {field.name for field in fields(Bare)}
    assert {name for name in names if has_option(loop, name)} <= set(inspect.signature(find("loop", loop)).parameters)


def test_the_options_of_bare_are_found_and_those_that_it_inherits_are_not() -> None:
    assert has_option("bare", "fences")
    assert not has_option("bare", "fence")
    inherited = set(options_of(Bare)) - set(Bare.__annotations__)
    assert inherited
    assert not {name for name in inherited if has_option("bare", name)}


def test_a_loop_that_is_not_built_in_has_no_known_option() -> None:
    assert not has_option("my.loops:Mine", "fences")
