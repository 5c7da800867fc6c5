"""Tasks and tools of the user's own through the command line, and every command of docs/own-tasks.md."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import runpy
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whichloop as package
from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import load_profile
from whichloop.models.server import Server
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite

PAGE = (Path(__file__).parents[2] / "docs" / "own-tasks.md").read_text(encoding="utf-8")


Command = Callable[..., Any]
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
    (here / "own_desk.py").write_text(block("python", "class Desk"))
    row = json.loads(block("json", "Order two"))
    plan = {
        "calls": [{"id": "c1", "tool": "order", "arguments": {"item": "chair", "count": 2}, "goal": "Order both chairs."}],
        "answer": {"$ref": "c1"},
    }
    wrong = {**row, "end_state": {"chair": 3}}
    (here / "orders.jsonl").write_text("".join(json.dumps({**made, "plan": plan}) + "\n" for made in (row, wrong)))
    flags = ["--suite", "jsonl", "--data", "orders.jsonl", "--tools", "own_desk:Desk", "--loop", "bare", "--repeats", "3"]
    assert whichloop("compare", *flags, *QUIET).json["arms"][0]["accuracy"]["value"] == 0.5


# --- the page ---


def block(language: str, holding: str) -> str:
    """The page's code block of a language that holds a text."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(text for text in blocks if holding in text)


def commands() -> list[str]:
    """The page's commands, in order."""
    lines = [line for text in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for line in text.splitlines()]
    return [line.removeprefix("$ whichloop ") for line in lines if line.startswith("$ whichloop ")]


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "tool": tool, "arguments": arguments, "goal": f"Step {number} of the way."}


WAYS: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "What does a lamp cost, in euros?": ([call(1, "price", item="lamp")], {"$ref": "c1"}),
    "How many chairs are in stock?": ([call(1, "stock", item="chair")], {"$ref": "c1"}),
    "What are all chairs in stock worth, in euros?": (
        [call(1, "stock", item="chair"), call(2, "price", item="chair"), call(3, "multiply", a={"$ref": "c1"}, b={"$ref": "c2"})],
        {"$ref": "c3"},
    ),
    "Which item is out of stock: lamp, chair or desk? Answer with its name only.": (
        [call(number, "stock", item=item) for number, item in enumerate(("lamp", "chair", "desk"), start=1)],
        "desk",
    ),
    "Order two chairs. How many are left?": ([call(1, "order", item="chair", count=2)], {"$ref": "c1"}),
}
"""What a good model does with each question of the page."""
SERVED = """
import desk, shop

def tools(task):
    return desk.Desk(task) if "stock" in task.world else [shop.price, shop.stock, shop.multiply]
"""


@contextmanager
def good_model(folder: Path) -> Iterator[str]:
    """An OpenAI-compatible server on loopback that knows the way; its base URL."""
    rows = [
        {"id": f"t{number}", "query": {"text": question}, "expected": answer, "plan": {"calls": calls, "answer": answer}}
        | ({"world": {"stock": {"chair": 4}}} if "Order" in question else {})
        for number, (question, (calls, answer)) in enumerate(WAYS.items())
    ]
    (folder / "served.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "served.py").write_text(SERVED)
    suite = make_suite(parse_spec("jsonl"), folder / "served.jsonl", "served:tools")
    trials = SuiteTrials(suite, load_profile("clean"), 0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server(trials, "127.0.0.1", 0, more=trials.more)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
        yield f"{server.url}/v1"
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        trials.close()


def test_the_suite_in_python_is_solved_as_the_page_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = runpy.run_path(str(_written(here / "in_python.py", block("python", "StatelessEnvironment"))))
    suite = made["suite"]
    assert repr(suite) == "<Suite shop, version 1: 2 tasks>"
    run = package.compare(["bare", "finish"], suite, mlflow=False, progress=False)
    assert run.arms["accuracy"].tolist() == [1.0] * 4
    monkeypatch.setattr(package, "compare", functools.partial(package.compare, mlflow=False, progress=False))
    runpy.run_path(str(here / "in_python.py"), run_name="__main__")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.slow
@pytest.mark.thorough
def test_every_command_of_the_page_does_what_it_says(whichloop: Command, here: Path) -> None:
    """On a model that knows the way, in OpenAI's protocol on loopback; `finish` stands for the designs where it is asked."""
    (here / "questions.csv").write_text(block("csv", "lamp"))
    (here / "shop.py").write_text(block("python", "PRICES"))
    (here / "desk.py").write_text(block("python", "class Desk"))
    (here / "grading.py").write_text(block("python", "polite"))
    (here / "mysuite.py").write_text(block("python", "suite_from_frame"))
    (here / "orders.jsonl").write_text(block("json", "Order two"))
    (here / "export.csv").write_text(
        "Prompt;Gold;Nr;context;topic\n" + "".join(f"{question};{39.9};{n};no;x\n" for n, question in enumerate(list(WAYS)[:1]))
    )
    (first, show, again, learn, planned, *others) = commands()
    with good_model(here) as url:
        real = ["--model", "openai/scripted", "-s", f"base_url={url}", "--loop", "finish"]

        def run(text: str, *flags: str) -> Any:
            words = shlex.split(text.replace("--model openai/gpt-4o-mini", ""))
            return whichloop(*words, *(flags if words[0] == "compare" else ()))

        asked = run(first, *real, *QUIET).json
        assert asked["arms"][0]["accuracy"]["value"] == 1.0
        assert run(show).code == 0
        checked = {}
        for text in others:
            if "huggingface" not in text:
                found = run(text, *real, "--runs", "others", *QUIET).json["arms"][0]
                checked[shlex.split(text)[2]] = found["accuracy"]["value"]
    assert checked == {
        next(name for name in checked if name.startswith("csv(question")): 1.0,
        'csv(scorer="grading:polite")': 0.0,
        "jsonl": 1.0,
        "mysuite:load": 1.0,
    }
    replayed = run(again, "--model", "openai/scripted", "--loop", "finish", *QUIET).json
    assert replayed["digest"] == asked["digest"]
    assert run(learn).code == 0
    assert len((here / "suite.jsonl").read_text().splitlines()) == 4
    blown = run(planned, *QUIET).json
    assert {arm["accuracy"]["value"] for arm in blown["arms"] if arm["profile"] == "clean"} == {1.0}
    assert {arm["excluded"] for arm in blown["arms"]} == {0}
