"""`list`, `init`, `prompts` and `ui`: what can be named and what is written is what other commands take."""

from __future__ import annotations

import json
import signal
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.reports.mlflow.servers import free_port, wait_for
from tests.sealing import reseal
from whichloop.experiments.optimize.config import SearchConfig
from whichloop.protocol.names import program_spec
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


KEPT = {".gitignore", "pyproject.toml"}
FILES = {"whichloop.toml", "loop_tools.py", "loop_tasks.jsonl", "tests/test_loops.py", ".github/workflows/loops.yml"} | KEPT


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_writes_files_whose_tasks_the_scripted_model_solves(here, whichloop, monkeypatch):
    ended = whichloop("init", "project")
    assert ended.code == 0
    assert written(here / "project") == FILES
    assert "__pycache__/" in (here / "project" / ".gitignore").read_text().splitlines()
    assert "  cd project\n" in ended.out
    monkeypatch.chdir(here / "project")
    CompareConfig.model_validate(tomllib.loads(Path("whichloop.toml").read_text()))
    flags = ("--profile", "clean", "--repeats", "1", "-q", "--json")
    made = whichloop("compare", "--config", "whichloop.toml", *flags).json
    assert {arm["loop"]: arm["accuracy"]["value"] for arm in made["arms"]} == {"bare": 1.0, "finish": 1.0}
    assert {arm["tasks"] for arm in made["arms"]} == {24}


@pytest.mark.slow
def test_the_suite_passes_every_check(here, whichloop):
    whichloop("init")
    ended = whichloop("check", "suite", "jsonl", "--data", "loop_tasks.jsonl", "--tools", "loop_tools", "--run-tools")
    assert ended.code == 0, ended.out + ended.err
    assert "FAILED" not in ended.out


@pytest.mark.parametrize("name", sorted(FILES - KEPT))
def test_a_file_that_is_there_is_named_and_nothing_is_written(here, whichloop, name):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text("mine")
    ended = whichloop("init")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {name}: already there; nothing was written\n"
    assert written(here) == {name}
    assert (here / name).read_text() == "mine"


@pytest.mark.parametrize("program", ["a.py:solve", "sh -c 'say \"hi\"'", "a.py:solve(venv=new)"])
def test_any_program_is_text_in_the_files(here, whichloop, program):
    assert whichloop("init", "--program", program).code == 0
    assert tomllib.loads((here / "whichloop.toml").read_text())["loops"] == [program_spec(program), "finish"]
    assert tomllib.loads((here / "pyproject.toml").read_text())["tool"]["whichloop"]["loop"] == [program_spec(program)]
    compile((here / "tests/test_loops.py").read_text(), "test_loops.py", "exec")
    assert f"program={json.dumps(program)}" in (here / "tests/test_loops.py").read_text()
    assert not [name for name in FILES if "@" in (here / name).read_text().replace("@pytest", "").replace("@v", "")]


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_is_kept_stays_and_the_rest_is_written(here, whichloop, name):
    (here / name).write_text("mine\n")
    assert whichloop("init").code == 0
    assert written(here) == FILES
    assert (here / name).read_text() == "mine\n"


EVIL = "Do \x1b[2J\x1b]0;owned\x07 \u202e[bold]this[/bold]\r<b>"


def saved(path: Path, instructions: str = "Do it.", demos: list[dict[str, Any]] | None = None, **about: Any) -> str:
    state = {"decide": {"signature": {"instructions": instructions, "fields": []}, "demos": demos or []}}
    path.write_text(json.dumps({**state, "metadata": {}, "whichloop": {"loop": "bare", **about}}), encoding="utf-8")
    reseal(path)
    return path.name


def test_a_program_is_shown(whichloop, here):
    talk = json.dumps([{"role": "user", "content": "How many?"}])
    name = saved(here / "p.json", "Do it.\nWell.", [{"conversation": talk, "reply": "3"}], optimizer="COPRO")
    shown = whichloop("prompts", name)
    assert (shown.code, shown.err) == (0, "")
    wanted = ["p.json", "loop       bare", "optimizer  COPRO", "── decide", "Do it.", "Well.", "user: How many?", "assistant: 3"]
    places = [shown.out.index(line) for line in wanted]
    assert places == sorted(places)


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_control_characters_are_shown_as_their_codes(whichloop, here, how):
    name = saved(here / "p.json", EVIL, [{"query": EVIL, EVIL: 1}], **{EVIL: EVIL})
    shown = whichloop("prompts", name, *how)
    assert shown.code == 0, shown.err
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown.out)
    assert "[bold]" in shown.out


def test_a_diff_of_control_characters_is_safe(whichloop, here):
    found = whichloop("prompts", saved(here / "a.json"), saved(here / "b.json", EVIL, [{EVIL: EVIL}]))
    assert found.code == 1
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(found.out)
    assert "+Do \\x1b[2J" in found.out


def test_equal_programs_have_no_diff(whichloop, here):
    found = whichloop("prompts", saved(here / "a.json"), saved(here / "b.json", seed=9))
    assert (found.code, found.out, found.err) == (0, "", "")


def test_a_loop_against_its_optimized_program(whichloop, here):
    found = whichloop("prompts", "bare", saved(here / "b.json", "Do it.", [{"query": "1", "answer": "2"}]))
    assert found.code == 1
    lines = found.out.splitlines()
    assert lines[:2] == ["--- bare", "+++ b.json"]
    assert lines[-3:] == ["+── decide, demonstration", "+query: 1", "+answer: 2"]
    assert "+Do it." in lines


def test_without_mlflow_it_says_how_to_install_it(whichloop, monkeypatch):
    monkeypatch.setattr("whichloop._extras.is_installed", lambda package: False)
    ended = whichloop("ui")
    assert (ended.code, ended.err) == (2, "error: ui needs mlflow, which is not installed: pip install 'whichloop[mlflow]'\n")


def test_a_servers_address_is_printed_without_its_password(whichloop, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.test/")
    ended = whichloop("ui")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "https://mlflow.example.test\n"


def test_it_serves_the_store_of_the_runs_until_it_is_told_to_end(machine, here):
    (here / "runs").mkdir()
    store = here / "runs" / "mlflow.db"
    store.touch()
    port = free_port()
    with machine.running("ui", "--port", str(port)) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{port}"
        wait_for(f"{address}/health")
        with urllib.request.urlopen(address) as page:
            assert "MLflow" in page.read().decode()
        assert store.stat().st_size
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)
