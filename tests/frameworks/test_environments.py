"""Finding environments, and what is said where there is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.frameworks.installing import constraints_of, constraints_text, framework_class, pinned_version
from whichloop.frameworks.table import find_environment, known_frameworks, packages_in, plain_name

from .conftest import make_environment


def test_a_framework_that_is_not_installed_names_the_command(home):
    with pytest.raises(ValueError, match=r"^agno is not installed: run whichloop install agno, or give "):
        find_environment("agno", ["agno"])


def test_a_folder_that_is_no_environment_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"^agno: venv: .* is no virtual environment: it has no bin/python$"):
        find_environment("agno", ["agno"], str(tmp_path))


def test_a_version_that_was_installed_is_named_without_its_folder(home):
    folder = make_environment(home / "agno@3.0.1", agno="3.0.1")
    assert find_environment("agno", ["agno"], "agno@3.0.1").folder == folder
    with pytest.raises(ValueError, match=r"^agno@3.0.2 is not installed: run whichloop install agno@3.0.2$"):
        find_environment("agno", ["agno"], "agno@3.0.2")


def test_an_environment_that_lacks_a_package_names_it(home):
    make_environment(home / "agno", agno="3.1.10")
    with pytest.raises(ValueError, match=r"agno lacks openai$"):
        find_environment("agno", ["agno", "openai[extra]"])


def test_versions_are_those_of_what_is_needed_and_the_digest_is_of_all(home):
    make_environment(home / "agno", agno="3.1.10", openai="3.0", httpx="1.0")
    first = find_environment("agno", ["agno", "openai"])
    assert first.versions == {"agno": "3.1.10", "openai": "3.0", "python": "3.11.7"}
    make_environment(home / "agno", agno="3.1.10", openai="3.0", httpx="1.1")
    second = find_environment("agno", ["agno", "openai"])
    assert second.versions == first.versions
    assert second.digest != first.digest


@given(st.from_regex(r"[a-z]([-_.]?[a-z0-9])*", fullmatch=True))
def test_a_package_has_one_name_however_it_is_spelled(name):
    for spelled in (name.upper(), name.replace("-", "_"), name.replace("_", "."), f"{name}[extra,other]"):
        assert plain_name(spelled) == plain_name(name)


@pytest.mark.parametrize("name", known_frameworks())
def test_constraints_pin_all_that_a_framework_needs_and_hold_versions_only(name):
    head, *lines = constraints_of(name).read_text().splitlines()
    assert head.startswith(f"# {name} ")
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line) for line in lines)
    pinned = {line.partition("==")[0] for line in lines}
    assert {plain_name(requirement) for requirement in framework_class(name).requires} <= pinned
    assert pinned_version(name)


def test_constraints_are_what_an_environment_holds(home):
    folder = make_environment(home / "agno", agno="3.1.10", some_thing="1.0", pip="25.0")
    _, *lines = constraints_text("agno", folder).splitlines()
    assert lines == ["agno==3.1.10", "some-thing==1.0"]
    assert packages_in(folder)["python"] == "3.11.7"
