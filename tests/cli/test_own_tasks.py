"""Tasks and tools of the user's own through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.docs.samples import samples

QUIET = ("-q", "--json")
TOOLS = '''
def price(item: str) -> float:
    """Price of one item."""
    return {"lamp": 39.9}[item]
'''
PLANNED = {
    "id": "lamp",
    "query": {"text": "What does a lamp cost?"},
    "expected": 39.9,
    "scorer": "numeric",
    "plan": {
        "calls": [{"id": "c1", "tool": "price", "arguments": {"item": "lamp"}, "goal": "Look up the lamp."}],
        "answer": {"$ref": "c1"},
    },
}


@pytest.fixture
def planned(here: Path) -> list[str]:
    """Flags of a comparison on one task with a plan and tools of one's own."""
    (here / "own_shop.py").write_text(TOOLS)
    (here / "planned.jsonl").write_text(json.dumps(PLANNED) + "\n")
    return ["compare", "--suite", "jsonl", "--data", "planned.jsonl", "--loop", "bare", "--profile", "clean", *QUIET]


def test_every_design_solves_a_planned_task_with_tools_of_the_users_own(whichloop, planned):
    flags = [flag for flag in planned if flag not in ("--loop", "bare")]
    made = whichloop(*flags, "--tools", "own_shop").json
    assert len(made["arms"]) == 5
    assert {arm["accuracy"]["value"] for arm in made["arms"]} == {1.0}


def test_a_configuration_file_names_tools_too(whichloop, here, planned):
    (here / "run.toml").write_text(
        'suite = "jsonl"\ndata = "planned.jsonl"\ntools = "own_shop"\nloops = ["bare"]\nprofiles = ["clean"]\n'
    )
    assert whichloop("compare", "--config", "run.toml", *QUIET).json["arms"][0]["accuracy"]["value"] == 1.0
    manifest = json.loads(next(here.glob("runs/*/manifest.json")).read_text())
    assert manifest["config"]["tools"] == "own_shop"
    assert manifest["suite"]["code"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "planned.jsonl, line 1, task 'lamp', call 'c1': no tool 'price': name the module that has it with --tools"),
        (["--tools", "nowhere"], "tools 'nowhere': no module named 'nowhere'"),
        (["--tools", "own_shop:nothing"], "tools 'own_shop:nothing': own_shop has no 'nothing'"),
        (["--tools", "own_empty"], "own_empty.py has neither TOOLS nor a public function of its own with type hints"),
        (["--tools", "own_other"], "planned.jsonl, line 1, task 'lamp', call 'c1': no tool 'price'; own_other has rate"),
        (["--tools", "own_leaving"], "tools 'own_leaving': importing own_leaving failed: SystemExit: 3"),
        (["--suite", "arithmetic", "--tools", "own_shop"], "suite arithmetic takes no --data file; csv, jsonl and parquet do"),
        (["--suite", "jsonl(tools=own_shop)"], "name their module with --tools"),
        (["--suite", "jsonl(colums={})"], "did you mean 'columns'"),
        (["--suite", 'jsonl(columns={quest = "q"})'], "no column is meant as 'quest'; did you mean 'question'"),
        (["--data", "none.jsonl"], "none.jsonl"),
        (["--data", "."], "directory"),
        (["--data", "wrong.jsonl"], "wrong.jsonl, line 2: unknown scorer 'numerik'; did you mean 'numeric'? known: bfcl, contains"),
        (["--data", "own.jsonl"], "own.jsonl, line 1, scorer 'os:getcwd' is code of your own; type its name"),
        (["--data", "plain.jsonl"], "1 of 1 task has no plan, which the scripted model needs"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(whichloop, here, planned, flags, said):
    (here / "own_empty.py").write_text("def helper(x): ...\n")
    (here / "own_other.py").write_text("def rate(x: int) -> int: ...\n")
    (here / "own_leaving.py").write_text("import sys\nsys.exit(3)\n")
    (here / "wrong.jsonl").write_text('{"question": "a", "answer": 1}\n{"question": "b", "answer": 1, "scorer": "numerik"}\n')
    (here / "own.jsonl").write_text('{"question": "a", "answer": 1, "scorer": "os:getcwd"}\n')
    (here / "plain.jsonl").write_text('{"question": "a", "answer": 1}\n')
    before = sorted(path.name for path in here.iterdir() if path.name != "__pycache__")
    found = whichloop(*planned, *flags)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert said in found.err
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == before


def test_what_tools_print_or_raise_neither_ends_a_run_nor_gets_into_its_output(whichloop, here, planned, machine):
    noisy = "print('imported')\n" + TOOLS.replace("return", "print('asked')\n    return")
    (here / "own_noisy.py").write_text(noisy)
    made = machine.run(*planned, "--tools", "own_noisy")  # a process, because the tools' worker writes to its standard error
    assert made.json["arms"][0]["accuracy"]["value"] == 1.0
    assert "imported\n" in made.err
    assert "asked\n" in made.err
    (here / "own_leaver.py").write_text(TOOLS.replace("return", "raise SystemExit(7) if item else"))
    ended = whichloop(*planned, "--tools", "own_leaver")
    broken = json.loads(ended.out)["arms"][0]
    assert (broken["scored"], broken["excluded"]) == (0, 1)  # the plan does not replay
    assert "SystemExit" in next(iter(broken["exclusions"]))
    assert ended.code == 4


def test_tasks_that_a_broken_tool_leaves_out_make_the_run_invalid_unless_somebody_names_them(whichloop, here, planned):
    (here / "own_broken.py").write_text(TOOLS)
    rows = [PLANNED, PLANNED | {"id": "desk", "plan": json.loads(json.dumps(PLANNED["plan"]).replace('"lamp"', '"desk"'))}]
    (here / "planned.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = whichloop(*[flag for flag in planned if flag != "--json"], "--tools", "own_broken")
    assert ended.code == 4
    assert "plans of 1 of 2 tasks do not replay (-s quarantine=file); the run is invalid: 1 × task 'desk'" in ended.out
    assert "KeyError: 'desk'" in ended.out
    (here / "bad.toml").write_text('desk = "no shop sells it"\n')
    assert whichloop(*planned, "--tools", "own_broken", "-s", "quarantine=bad.toml").code == 0


def test_a_run_imports_its_tools_only_when_told_and_goes_on_only_with_the_same(whichloop, here, planned):
    assert whichloop(*planned, "--tools", "own_shop").code == 0
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "--allow own_shop" in untyped.err
    assert whichloop("resume", "latest", "-q", "--allow", "own_shop").code == 0
    (here / "own_shop.py").write_text(TOOLS + "# changed\n")
    changed = whichloop("resume", "latest", "-q", "--allow", "own_shop")
    assert (changed.code, changed.out) == (2, "")
    assert "changed since this run began: the code of your own that suite planned is made of" in changed.err
    judged = whichloop("resume", "latest", "--rescore", "--allow", "own_shop")
    assert (judged.code, judged.err.count("\n")) == (2, 1)
    assert "the code of the tools in own_shop is another" in judged.err


@pytest.mark.parametrize("kind", [pytest.param("suite", marks=pytest.mark.slow), "scorer"])
def test_a_run_goes_on_only_with_the_same_suite_and_scorer_of_the_users_own(whichloop, here, planned, kind):
    source = {
        "scorer": "def lenient(judgement):\n    return 1.0\n",
        "suite": "from whichloop.datasets.arithmetic import load as lenient\n",
    }[kind]
    (here / f"own_kind_of_{kind}.py").write_text(source)
    suite = {"scorer": 'jsonl(scorer="own_kind_of_scorer:lenient")', "suite": "own_kind_of_suite:lenient"}[kind]
    (here / "plain.jsonl").write_text('{"question": "What does a lamp cost?"}\n')
    data = ["--data", "plain.jsonl", "--tools", "own_shop"] if kind == "scorer" else ["--tasks", "1"]
    bare = ["compare", "--suite", suite, "--loop", "bare", "--model", "openai/x", "-s", "base_url=http://127.0.0.1:9/v1"]
    assert whichloop(*bare, *data, *QUIET, "-s", "provider.attempts=1").code in (0, 4)  # nobody answers there
    again = ["resume", "latest", "-q", "-s", "base_url=http://127.0.0.1:9/v1", "--allow", "own_shop"]
    assert f"--allow own_kind_of_{kind}:lenient" in whichloop(*again).err
    (here / f"own_kind_of_{kind}.py").write_text(source + "# changed\n")
    changed = whichloop(*again, "--allow", f"own_kind_of_{kind}:lenient")
    assert (changed.code, changed.out) == (2, "")
    assert "changed since this run began: the code of your own" in changed.err
    assert "where only scorers changed in it, judge the answers again: whichloop resume" in changed.err


def test_each_trial_has_its_own_state_and_is_judged_by_it(whichloop, here):
    page = {sample.file: sample.text for sample in samples((DOCS / "your-tasks.md").read_text("utf-8"))}
    (here / "own_desk.py").write_text(page["desk.py"])
    right = json.loads(page["orders.jsonl"])
    (here / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (right, right | {"end_state": {"chair": 3}})))
    flags = ["--suite", "jsonl", "--data", "orders.jsonl", "--tools", "own_desk:Desk", "--loop", "bare", "--repeats", "3"]
    assert whichloop("compare", *flags, *QUIET).json["arms"][0]["accuracy"]["value"] == 0.5
