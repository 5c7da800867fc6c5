"""From text to loops and suites: options and their types, names, and code of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from whichloop.loops.bare import Bare
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import Loop
from whichloop.protocol.names import Spec, parse_spec
from whichloop.runs.built_in import options_of
from whichloop.runs.code_digests import code_digest
from whichloop.runs.registry import converted_options, loops_named, make_loop, make_suite


@dataclass(frozen=True)
class Options:
    """A design's options."""

    steps: int = 3
    """How many.
    A second line."""
    mode: str | None = "fast"
    share: float = 0.5


def test_options_have_type_default_and_first_sentence_of_documentation():
    found = options_of(Options)
    assert {name: (option.type, option.default, option.doc) for name, option in found.items()} == {
        "steps": (int, 3, "How many."),
        "mode": (str | None, "fast", ""),
        "share": (float, 0.5, ""),
    }


def test_options_are_converted_and_the_word_none_is_none_where_that_is_allowed():
    assert converted_options(Options, {"steps": 4, "mode": "none", "share": 1}, "it") == {"steps": 4, "mode": None, "share": 1.0}


@pytest.mark.parametrize(
    ("given_options", "said"),
    [({"step": 3}, "it: unknown option 'step'; did you mean 'steps'"), ({"steps": "many"}, "it: steps: .*got 'many'")],
)
def test_a_wrong_option_is_named(given_options, said):
    with pytest.raises(ValueError, match=said):
        converted_options(Options, given_options, "it")


@dataclass(frozen=True)
class Guarded:
    """A design round another."""

    loop: Loop = field(default_factory=Bare)
    other: Loop | None = None


def test_an_option_that_is_a_loop_is_typed_as_one():
    made = converted_options(Guarded, {"loop": "bare(max_steps=5)", "other": "react_extract"}, "it")
    assert made == {"loop": Bare(max_steps=5), "other": ReactExtract()}
    assert converted_options(Guarded, {"other": "none"}, "it") == {"other": None}


def test_all_loops_that_a_spec_names_are_told_without_importing_any():
    spec = parse_spec(r'guards:Guarded(loop="own.one:A(loop=\"own.two:B\")", patience=3, mode=stop, text="no spec at all")')
    assert loops_named(spec) == ["guards:Guarded", "own.one:A", "own.two:B"]
    assert loops_named(parse_spec("bare(instructions=bare)")) == ["bare"]


@pytest.mark.parametrize(
    ("make", "text", "said"),
    [
        (make_loop, "bear", "unknown loop 'bear'; did you mean 'bare'"),
        (make_loop, "bare(max_stepps=3)", "loop bare: unknown option 'max_stepps'; did you mean 'max_steps'"),
        (make_suite, "arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'"),
        (make_suite, "gsm8k", "--data FILE"),
        (make_loop, "no_such_module:Loop", "no module named 'no_such_module'"),
        (make_loop, "json:Loop", "json has no 'Loop'"),
        (make_loop, "collections:Counter", "it lacks name, stops, run and with_step_limit"),
        (make_suite, "collections:Counter", "gives a Counter"),
    ],
)
def test_what_is_not_there_is_named_with_what_is_near(make: Callable[[Spec], object], text, said):
    with pytest.raises(ValueError, match=said) as caught:
        make(parse_spec(text))
    assert "\n" not in str(caught.value)


LIMITS = """
from dataclasses import dataclass
from whichloop.loops.bare import Bare

@dataclass(frozen=True, slots=True)
class Four(Bare):
    max_steps: int = 4

class Plain:
    name, stops, run = "plain", frozenset(), print
    def __init__(self, max_steps: int = 4):
        self.max_steps = max_steps
    def with_step_limit(self, tool_steps):
        return type(self)(tool_steps + 1)

def three():
    return Four(max_steps=3)
"""


@pytest.mark.parametrize(
    ("text", "suites", "typed", "alone"),
    [
        ("bare", 9, 7, 10),
        ("bare(max_steps=10)", 10, 10, 10),
        ("finish", 9, 7, None),
        ("limits:Four", 4, 7, 4),
        ("limits:Plain", 4, 7, 4),
        ("limits:three", 3, 3, 3),
        ("repeat_guard(loop=bare)", 9, 7, 10),
        ("repeat_guard(loop='bare(max_steps=3)')", 3, 3, 3),
        ("repeat_guard(loop='limits:Four')", 4, 7, 4),
    ],
)
def test_a_loop_has_the_limit_of_its_user_then_of_its_author_then_of_the_run(own, text, suites, typed, alone):
    """`suites`: beside a suite's limit of 8; `typed`: where the user also set 6 for all loops; `alone`: in a product."""
    own("limits", LIMITS)
    made: list[Any] = [make_loop(parse_spec(text), *limits) for limits in ((None, 8), (6, 8), ())]
    assert [getattr(loop, "loop", loop).max_steps for loop in made] == [suites, typed, alone]


@pytest.fixture
def own(tmp_path: Path, monkeypatch) -> Iterator[Callable[[str, str], None]]:
    """Writes a module that can be imported for the length of a test."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


LOOP = """
class Mine:
    name = "mine"
    stops = frozenset()
    def __init__(self, limit: int = 1):
        self.limit = limit
    async def run(self, query, tools, model, observer=None): ...
    def with_step_limit(self, tool_steps):
        return Mine(tool_steps)
"""


@pytest.fixture
def here(own, tmp_path: Path, monkeypatch) -> Path:
    """The current directory, which is not on the search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    return tmp_path


def test_code_in_the_current_directory_is_found_and_the_search_path_stays_as_it_was(here):
    (here / "here_helper.py").write_text("LIMIT = 3\n")
    (here / "here_loop.py").write_text(f"from here_helper import LIMIT\n{LOOP}")
    before = list(sys.path)
    assert make_loop(parse_spec("here_loop:Mine")).name == "mine"
    assert sys.path == before
    (here / "here_package").mkdir()
    (here / "here_package" / "inner.py").write_text(LOOP)
    assert make_loop(parse_spec("here_package.inner:Mine")).name == "mine"
    (here / "here_broken.py").write_text("import here_missing\n")
    with pytest.raises(ValueError, match="no module named 'here_missing'"):
        make_loop(parse_spec("here_broken:Mine"))
    assert sys.path == before


def test_what_is_installed_wins_over_the_current_directory(here, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(sys, "path", [*sys.path, str(elsewhere)])
    (here / "here_twice.py").write_text("raise AssertionError('imported from the current directory')\n")
    (elsewhere / "here_twice.py").write_text(LOOP)
    (here / "here_user.py").write_text("from here_twice import Mine\n")
    for module in ("here_user", "here_twice"):
        assert make_loop(parse_spec(f"{module}:Mine")).name == "mine"
    monkeypatch.delitem(sys.modules, "here_twice")


def test_the_code_of_a_loop_inside_another_counts_too(own):
    own("own_inner", LOOP)
    texts = ('"own_inner:Mine"', "bare", "bare", "react_extract")
    outer = [make_loop(parse_spec(f"repeat_guard(loop={text})")) for text in texts]
    one, two, again, three = map(code_digest, outer)
    assert two == again
    assert len({one, two, three}) == 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\nimport own_missing\n", r"no module named 'own_missing' \(own_broken\.py:2\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .* \(own_broken\.py:2\)$"),
    ],
)
def test_code_that_cannot_be_imported_is_refused_with_the_reason(own, source, said):
    own("own_broken", source)
    with pytest.raises(ValueError, match=said):
        make_loop(parse_spec("own_broken:Mine"))
