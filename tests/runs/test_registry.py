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
from whichloop.runs.built_in import builtin_names, options_of
from whichloop.runs.code_digests import code_digest
from whichloop.runs.registry import converted_options, find, generated_suites, is_generated, loops_named, make_loop, make_suite

# --- options ---


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
    [
        ({"step": 3}, "it: unknown option 'step'; did you mean 'steps'"),
        ({"zzz": 3}, "known: steps, mode, share"),
        ({"steps": "many"}, "it: steps: .*got 'many'"),
        ({"steps": "none"}, "steps"),
        ({"share": [1]}, "share"),
    ],
)
def test_a_wrong_option_is_named(given_options, said):
    with pytest.raises(ValueError, match=said):
        converted_options(Options, given_options, "it")


def test_types_that_no_text_can_stand_for_are_refused_by_name():
    class Engine:
        pass

    def build(engine: Engine) -> None: ...

    build.__annotations__["engine"] = Engine
    with pytest.raises(ValueError, match="it: engine: text cannot express"):
        converted_options(build, {"engine": "v8"}, "it")


def test_annotations_that_only_a_type_checker_can_resolve_do_not_matter():
    def build(size: Unheard = 3) -> None:  # type: ignore[name-defined]  # noqa: F821
        return None

    assert converted_options(build, {"size": 4}, "it") == {"size": 4}


# --- a loop inside another ---


@dataclass(frozen=True)
class Guarded:
    """A design round another."""

    loop: Loop = field(default_factory=Bare)
    other: Loop | None = None


def test_an_option_that_is_a_loop_is_typed_as_one():
    made = converted_options(Guarded, {"loop": "bare(max_steps=5)", "other": "react_extract"}, "it")
    assert made == {"loop": Bare(max_steps=5), "other": ReactExtract()}
    assert converted_options(Guarded, {"other": "none"}, "it") == {"other": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bear", "it: loop: unknown loop 'bear'; did you mean 'bare'"),
        ("bare(max_stepps=3)", "it: loop: loop bare: unknown option 'max_stepps'"),
        ("bare(3)", "it: loop: .*write option=value"),
        ("none", "it: loop: unknown loop 'none'"),
        (3, "it: loop: write a loop"),
    ],
)
def test_a_wrong_loop_inside_another_is_refused_in_one_line(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        converted_options(Guarded, {"loop": text}, "it")
    assert "\n" not in str(caught.value)


def test_all_loops_that_a_spec_names_are_told_without_importing_any():
    spec = parse_spec(r'guards:Guarded(loop="own.one:A(loop=\"own.two:B\")", patience=3, mode=stop, text="no spec at all")')
    assert loops_named(spec) == ["guards:Guarded", "own.one:A", "own.two:B"]
    assert loops_named(parse_spec("bare(instructions=bare)")) == ["bare"]


# --- names ---


def test_built_in_designs_are_found_by_their_module():
    assert {"bare", "react_extract"} <= set(builtin_names("loop"))
    assert {"arithmetic", "csv", "gsm8k", "huggingface", "jsonl", "parquet"} <= set(builtin_names("suite"))


@pytest.mark.parametrize(
    ("make", "text", "said"),
    [
        (make_loop, "bear", "unknown loop 'bear'; did you mean 'bare'"),
        (make_loop, "task", "unknown loop 'task'; .*known: bare, "),
        (make_loop, "bare(max_stepps=3)", "loop bare: unknown option 'max_stepps'; did you mean 'max_steps'"),
        (make_loop, "bare(max_steps=0)", "loop bare.max_steps=0.: max_steps must be at least 1"),
        (make_loop, "bare(on_provider_error=explode)", "on_provider_error: .*'stop' or 'observe'"),
        (make_suite, "arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'"),
        (make_suite, "arithmetic(sise=3)", "did you mean 'size'"),
        (make_suite, "arithmetic(size=0)", "size is 0"),
        (make_suite, "arithmetic(size=many)", "size"),
        (make_suite, "gsm8k", "--data FILE"),
        (make_loop, "no_such_module:Loop", "no module named 'no_such_module'"),
        (make_loop, "no.such.module:Loop", "no module named 'no'"),
        (make_loop, "json:Loop", "json has no 'Loop'"),
        (make_loop, "json:", "write what of json is meant, json:NAME"),
        (make_loop, "math:pi", "not a class or function"),
        (make_loop, "collections:Counter", "it lacks name, stops, run and with_step_limit"),
        (make_suite, "collections:Counter", "gives a Counter"),
        (make_suite, "math:sqrt", "math"),
    ],
)
def test_what_is_not_there_is_named_with_what_is_near(make: Callable[[Spec], object], text, said):
    with pytest.raises(ValueError, match=said) as caught:
        make(parse_spec(text))
    assert "\n" not in str(caught.value)


def test_a_suite_that_reads_no_file_takes_none(tmp_path):
    with pytest.raises(ValueError, match=r"arithmetic takes no --data file; csv, jsonl and parquet do$"):
        make_suite(parse_spec("arithmetic"), data=Path("questions.csv"), tools="own_shop")
    with pytest.raises(ValueError, match="arithmetic takes no --data"):
        make_suite(parse_spec("arithmetic"), tmp_path / "x.jsonl")
    with pytest.raises(OSError, match=r"x\.jsonl"):
        make_suite(parse_spec("gsm8k"), tmp_path / "x.jsonl")


LIMITS = """
from dataclasses import dataclass, field
from typing import Any
from whichloop.loops.bare import Bare
from whichloop.loops.repeat_guard import RepeatGuard

@dataclass(frozen=True, slots=True)
class Four(Bare):
    max_steps: int = 4

@dataclass(frozen=True, slots=True)
class Heir(Bare):
    patience: int = 2

@dataclass(frozen=True, slots=True)
class Around(RepeatGuard):
    loop: Any = field(default_factory=Four)

class Plain:
    name, stops, run = "plain", frozenset(), print
    def __init__(self, max_steps: int = 4):
        self.max_steps = max_steps
    def with_step_limit(self, tool_steps):
        return type(self)(tool_steps + 1)

class Unlimited(Plain):
    def __init__(self, max_steps: int | None = None):
        self.max_steps = max_steps

def three():
    return Heir(max_steps=3)
"""


@pytest.mark.parametrize(
    ("text", "suites", "typed", "alone"),
    [
        ("bare", 9, 7, 10),
        ("bare(check_types=true)", 9, 7, 10),
        ("bare(max_steps=10)", 10, 10, 10),
        ("finish", 9, 7, None),
        ("limits:Heir", 9, 7, 10),
        ("limits:Unlimited", 9, 7, None),
        ("limits:Four", 4, 7, 4),
        ("limits:Four(max_steps=4)", 4, 4, 4),
        ("limits:Plain", 4, 7, 4),
        ("limits:three", 3, 3, 3),
        ("repeat_guard(loop=bare)", 9, 7, 10),
        ("repeat_guard(loop='bare(max_steps=3)')", 3, 3, 3),
        ("repeat_guard(loop='limits:Four')", 4, 7, 4),
        ("limits:Around", 4, 7, 4),
    ],
)
def test_a_loop_has_the_limit_of_its_user_then_of_its_author_then_of_the_run(own, text, suites, typed, alone):
    """`suites`: beside a suite's limit of 8; `typed`: where the user also set 6 for all loops; `alone`: in a product."""
    own("limits", LIMITS)
    made: list[Any] = [make_loop(parse_spec(text), *limits) for limits in ((None, 8), (6, 8), ())]
    assert [getattr(loop, "loop", loop).max_steps for loop in made] == [suites, typed, alone]


# --- code of the user's own ---


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


def test_a_loop_of_the_users_own_has_no_less_than_a_built_in_one(own):
    own("own_loop", LOOP)
    spec = parse_spec("own_loop:Mine")
    assert make_loop(spec, 5).limit == 5  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="did you mean 'limit'"):
        make_loop(parse_spec("own_loop:Mine(limits=2)"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """The current directory, which is not on the search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


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
    monkeypatch.delitem(sys.modules, "here_twice", raising=False)
    assert make_loop(parse_spec("here_twice:Mine")).name == "mine"
    monkeypatch.delitem(sys.modules, "here_twice")


def test_an_option_that_a_loop_cannot_do_without_is_asked_for(own):
    own("own_needy_loop", LOOP.replace("limit: int = 1", "limit: int"))
    as_program = r"json:dumps\(obj=…\); a function that solves a task is given as --program json:dumps, or decorated with @"
    with pytest.raises(ValueError, match=as_program):
        make_loop(parse_spec("json:dumps"))
    with pytest.raises(ValueError, match=r"needs limit: give own_needy_loop:Mine\(limit=…\)$"):
        make_loop(parse_spec("own_needy_loop:Mine"))


def test_a_loops_code_has_a_digest_that_changes_with_it(own):
    own("own_a", LOOP)
    own("own_b", LOOP + "\n# changed\n")
    digests = {code_digest(make_loop(parse_spec(f"{name}:Mine"))) for name in ("own_a", "own_b")}
    assert len(digests) == 2
    assert "" not in digests


def test_every_module_of_a_loop_that_is_a_package_counts(tmp_path, monkeypatch):
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .loop import Mine\n")
    (package / "loop.py").write_text(LOOP)
    (package / "other.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    loop = make_loop(parse_spec("own_package:Mine"))
    before = code_digest(loop)
    (package / "other.py").write_text("A = 2\n")
    assert "" != before != code_digest(loop)


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
        ("def broken(:\n", "SyntaxError"),
        ("\nimport own_missing\n", r"no module named 'own_missing' \(own_broken\.py:2\)"),
        ("from json import nothing_there\n", "ImportError"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .* \(own_broken\.py:2\)$"),
        ("1 / 0\n", r"ZeroDivisionError: division by zero \(own_broken\.py:1\)$"),
        ("raise AttributeError('its own')\n", "AttributeError: its own"),
    ],
)
def test_code_that_cannot_be_imported_is_refused_with_the_reason(own, source, said):
    own("own_broken", source)
    with pytest.raises(ValueError, match=said):
        make_loop(parse_spec("own_broken:Mine"))


@pytest.mark.parametrize("place", ["self.limit = limit", "return Mine(tool_steps)"])
def test_a_loop_that_cannot_be_made_is_refused_with_the_reason(own, place):
    own("own_raising", LOOP.replace(place, "raise LookupError('not today')"))
    with pytest.raises(ValueError, match="loop own_raising:Mine: LookupError: not today"):
        make_loop(parse_spec("own_raising:Mine"), 5)


@pytest.mark.parametrize(("parameter", "said"), [("data", "needs data: give --data FILE"), ("size", r"needs size: give .*size=…")])
def test_an_option_that_a_suite_cannot_do_without_is_asked_for(own, parameter, said):
    own("own_needy", f"def load({parameter}): ...\n")
    with pytest.raises(ValueError, match=said):
        make_suite(parse_spec("own_needy:load"))


def test_a_suite_that_fails_on_its_options_is_refused(own):
    for kind in ("TypeError", "ValueError"):
        own(f"own_failing_{kind}", f"def load(size: int = 1):\n    raise {kind}('not today')\n")
        said = rf"suite own_failing_{kind}:load\(size=2\): {kind}: not today at own_failing_{kind}\.py:2"
        with pytest.raises(ValueError, match=f"^{said}$"):
            make_suite(parse_spec(f"own_failing_{kind}:load(size=2)"))


def test_what_our_code_refuses_in_a_suite_of_the_users_is_told_with_the_users_line(own):
    made = "Task('a', Query('What?'), 3, plan='answer = 3')"
    own("own_plan_as_text", f"from whichloop import Query, Task\n\ndef load():\n    return {made}\n")
    said = r"suite own_plan_as_text:load: ValueError: task 'a': plan: give plan_from_lines\(text\), .* at own_plan_as_text\.py:4"
    with pytest.raises(ValueError, match=f"^{said}$"):
        make_suite(parse_spec("own_plan_as_text:load"))


def test_a_suite_s_options_are_documented_by_its_loader():
    options = options_of(find("suite", "csv"))
    assert options["question"].doc == "name of the column with the question; left out, it is found by its name"
    assert options["delimiter"].doc.startswith("the sign between cells; None: ")
    assert " ".join(options) == "data tools delimiter decimal_comma question answer columns scorer labels limit"
    undocumented = [
        f"{suite}.{option.name}"
        for suite in builtin_names("suite")
        for option in options_of(find("suite", suite)).values()
        if not option.doc
    ]
    assert undocumented == []


def test_a_suite_is_known_to_be_generated_by_its_name() -> None:
    names = {*builtin_names("suite"), "canal", "my.module:SUITE", ""}
    assert {name for name in names if is_generated(name)} == set(generated_suites())
