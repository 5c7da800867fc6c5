"""Finding environments, what is said where there is none, and the table of frameworks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.frameworks.installing import CONSTRAINTS, pinned_version
from whichloop.frameworks.table import FRAMEWORKS, plain_name
from whichloop.protocol.modules import names_in
from whichloop.runs.built_in import builtin_names, options_of

from .conftest import make_environment

AGNO = FRAMEWORKS["agno"]


@pytest.mark.parametrize(
    ("venv", "said"),
    [
        ("", r"^agno is not installed: run whichloop install agno, or give agno\(venv=FOLDER\)$"),
        ("agno@3.0.2", "^agno@3.0.2 is not installed: run whichloop install agno@3.0.2, "),
        ("/", r"^agno: venv: / is no virtual environment: it has no bin/python$"),
        ("agno@3.0.1", "agno@3.0.1 lacks openai$"),
    ],
)
def test_an_environment_that_is_not_there_is_named_with_what_makes_one(home, venv, said):
    make_environment(home / "agno@3.0.1", agno="3.0.1")
    with pytest.raises(ValueError, match=said):
        AGNO(venv=venv).environment_digest  # noqa: B018  # reading it is the call


def test_versions_are_those_of_what_is_needed_and_the_digest_is_of_all(home):
    make_environment(home / "agno", agno="3.1.10", openai="3.0", httpx="1.0")
    make_environment(home / "agno@3.0.1", agno="3.0.1", openai="3.0")
    assert (AGNO().version, AGNO(venv="agno@3.0.1").version) == ("3.1.10", "3.0.1")
    assert AGNO(venv=str(home / "agno")).environment == AGNO().environment
    versions, digest = AGNO().packages, AGNO().environment_digest
    assert versions == {"agno": "3.1.10", "openai": "3.0", "python": "3.11.7"}
    make_environment(home / "agno", agno="3.1.10", openai="3.0", httpx="1.1")
    assert AGNO().packages == versions
    assert AGNO().environment_digest != digest


@given(st.from_regex(r"[a-z]([-_.]?[a-z0-9])*", fullmatch=True))
def test_a_package_has_one_name_however_it_is_spelled(name):
    for spelled in (name.upper(), name.replace("-", "_"), name.replace("_", "."), f"{name}[extra,other]"):
        assert plain_name(spelled) == plain_name(name)


def test_each_framework_has_a_row_a_wiring_and_a_line_in_lists():
    assert list(FRAMEWORKS) == list(names_in("whichloop.frameworks.wiring")) == builtin_names("framework")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_is_pinned_with_all_that_it_needs_and_its_options_are_those_of_its_wiring(name):
    head, *lines = (CONSTRAINTS / f"{name}.txt").read_text().splitlines()
    assert head.startswith(f"# {name} ")
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line) for line in lines)
    pinned = dict(line.split("==") for line in lines)
    assert {plain_name(requirement) for requirement in FRAMEWORKS[name].requires} <= pinned.keys()
    assert pinned_version(name) in pinned.values()
    loop, options = FRAMEWORKS[name](), options_of(FRAMEWORKS[name])
    assert loop.options().keys() == options.keys() - {"venv", "max_steps"}
    assert loop.options() == {option: options[option].default for option in loop.options()}
    assert all(option.doc for option in options.values())
    assert set(re.findall(r'task\.options\["(\w+)"\]', loop.wiring.read_text())) == loop.options().keys()
    assert FRAMEWORKS[name](venv="x").with_step_limit(3) == FRAMEWORKS[name](venv="x", max_steps=4)
