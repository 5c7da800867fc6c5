"""`whichloop list`: what can be named, in short and in full, as tables and as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from whichloop.cli import listed
from whichloop.cli.list_ import KINDS
from whichloop.experiments.optimize.config import SearchConfig
from whichloop.models.local import server
from whichloop.models.profiles import load_profile
from whichloop.runs.config import SECTIONS, CompareConfig, load_config

EXPECTED = {
    "loops": {"bare", "react_extract", "langgraph"},
    "frameworks": {"openai_agents", "langgraph"},
    "suites": {"arithmetic", "gsm8k"},
    "profiles": {"bad-network", "clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "provider-trouble"},
    "metrics": {"accuracy", "steps", "exact", "numeric"},
    "models": {"scripted", "local", "local:FILE"},
    "optimizers": {"MIPROv2", "GEPA", "package.module:Name"},
    "settings": {"suite", "budget.calls", "provider.attempts"},
}
SLOW = ("suites", "optimizers")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in EXPECTED])
def test_everything_that_can_be_named_is_listed_in_short_as_in_full(whichloop, kind):
    found = whichloop("list", kind, "--json")
    entries = json.loads(found.out)
    assert (found.code, found.err) == (0, "")
    assert EXPECTED[kind] <= {entry["name"] for entry in entries}
    assert all(entry["summary"] for entry in entries)
    if kind == "loops":
        assert all(option["doc"] for entry in entries for option in entry["options"])
    said = [line.split("\t") if "\t" in line else line.split() for line in whichloop("list", kind).out.splitlines()]
    assert {entry["name"].split()[0] for entry in entries} <= {words[0] for words in said if words}


@pytest.mark.parametrize("kind", ["loops", pytest.param("suites", marks=pytest.mark.slow)])
def test_the_short_list_says_what_the_full_one_says(kind):
    short, full = ([(each.name, each.summary) for each in listed.KINDS[kind](how, None)] for how in (False, True))
    assert short == full


def test_a_suite_has_its_facts_in_columns(whichloop):
    (entry,) = whichloop("list", "suites", "arithmetic", "--json").json
    assert (entry["needs"], entry["version"], entry["tasks"], entry["median_plan"]) == ("", "2", 120, 5)
    assert entry["splits"] == {"train": 59, "dev": 20, "test": 41}
    assert len(entry["digest"]) == 12
    head, facts, *options = whichloop("list", "suites", "arithmetic").out.splitlines()
    assert head.split() == ["name", "needs", "version", "tasks", "splits", "median_plan", "digest", "about"]
    assert "  120  59 train, 20 dev, 41 test  " in facts
    assert entry["digest"] in facts
    assert options[0] == "Options of arithmetic"
    (importer,) = whichloop("list", "suites", "gsm8k", "--json").json
    assert importer["needs"] == "--data"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suites", "arithmetics"], "error: there is no 'arithmetics' among the suites; did you mean 'arithmetic'? known: "),
        (["settings", "task"], "error: there is no 'task' among the settings; did you mean 'tasks'?"),
        (["profiles", "nope"], "error: unknown profile 'nope'"),
        (["profiles", "nope.toml"], "error: nope.toml: "),
        (["loops", "json:JSONDecoder"], "error: loop json:JSONDecoder: it lacks run: see whichloop.protocol.Loop\n"),
        (["loop"], "error: Invalid value for KIND: 'loop' is none of loops, frameworks, suites, "),
        ([], "error: Missing argument 'KIND'"),
    ],
)
def test_a_mistake_is_one_line(whichloop, words, said):
    ended = whichloop("list", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(said)


def test_a_built_in_profile_is_shown(whichloop):
    found = whichloop("list", "profiles", "flaky-tools")
    assert found.code == 0
    assert "tool.raises" in found.out
    assert "0.06" in found.out
    as_json = whichloop("list", "profiles", "flaky-tools", "--json").json
    assert as_json["rates"] == load_profile("flaky-tools").rates
    assert as_json["digest"] == load_profile("flaky-tools").digest


def test_weaknesses_are_shown_in_words(whichloop):
    found = whichloop("list", "profiles", "teachable")
    assert found.code == 0
    assert "a hundredth of what was meant" in " ".join(found.out.split())
    assert "unit" in found.out
    assert "wire.malformed" not in found.out
    assert "kind=" not in found.out


def _paths(model: Any = CompareConfig, before: str = "") -> set[str]:
    found: set[str] = set()
    for name, info in model.model_fields.items():
        is_table = hasattr(info.annotation, "model_fields")
        found |= _paths(info.annotation, f"{before}{name}.") if is_table else {f"{before}{name}"}
    return found


def test_every_setting_is_in_one_section_and_listed_with_type_default_and_meaning(whichloop):
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(CompareConfig.model_fields)
    entries = whichloop("list", "settings", "--json").json
    names = [entry["name"] for entry in entries]
    assert sorted(names[: len(_paths())]) == sorted(_paths())
    assert {name.partition(".")[0] for name in names[len(_paths()) :]} == {*SearchConfig.model_fields}
    assert all(entry["type"] and entry["default"] and entry["summary"].endswith((".", "`.")) for entry in entries)
    by_name = {entry["name"]: (entry["type"], entry["default"]) for entry in entries[: len(_paths())]}
    assert by_name["budget.calls"] == ("integer", "none")
    assert by_name["loops"] == ("text, several", "bare, finish, phased, react_extract, stateless")
    assert by_name["cassette_mode"] == ("record|replay|replay-or-record|refresh", "replay")
    for name in ("seed", "trial_timeout_s", "alpha", "engine", "skip_unplanned"):
        assert by_name[name][1] == str(getattr(load_config(None, {}), name)).lower()
    lines = whichloop("list", "settings").out.splitlines()
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)


def test_the_schema_of_a_plan_is_one(whichloop):
    schema = whichloop("list", "plan-schema").json
    jsonschema.Draft202012Validator.check_schema(schema)
    plan = {"calls": [{"id": "c1", "tool": "price", "arguments": {}, "goal": "Look up."}], "answer": {"$ref": "c1"}}
    jsonschema.validate(plan, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plan | {"calls": 3}, schema)


def test_options_say_which_values_they_take(whichloop):
    (phased,) = whichloop("list", "loops", "phased", "--json").json
    values = {option["name"]: option["values"] for option in phased["options"]}
    assert values["failed_dependency"] == ["run", "skip", "fail"]
    assert [] in values.values()
    assert re.search(r"^failed_dependency +\w+ +run\|skip\|fail ", whichloop("list", "loops", "phased").out, re.MULTILINE)


def test_kinds_complete_what_is_typed():
    assert set(KINDS) == {*listed.KINDS, "plan-schema"}


# --- the model in the box ---


def about_local() -> str:
    return next(each.summary for each in listed.KINDS["models"](False, None) if each.name == "local")


def test_weights_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(server, "find_weights", missing)
    assert about_local().endswith(f"not installed here: {server.INSTALL}")


@pytest.mark.parametrize("library", ["no_such_package", "json"])
def test_so_is_the_package_that_serves_them(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setattr(server, "find_weights", lambda name: None)
    monkeypatch.setattr(server, "LIBRARY", library)
    assert ("pip install 'whichloop[local]'" in about_local()) is (library != "json")
