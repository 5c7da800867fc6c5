"""Tasks, tools, tool servers and programs of the user's own."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

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
    assert "changed since this run began: suite planned (its code of your own)" in changed.err
    judged = whichloop("resume", "latest", "--rescore", "--allow", "own_shop")
    assert (judged.code, judged.err.count("\n")) == (2, 1)
    assert "the code of the tools in own_shop is another" in judged.err


def test_a_run_goes_on_only_with_the_same_scorer_of_the_users_own(whichloop, here, planned):
    source = "def lenient(judgement):\n    return 1.0\n"
    (here / "own_scorer.py").write_text(source)
    (here / "plain.jsonl").write_text('{"question": "What does a lamp cost?"}\n')
    nowhere = ["-s", "base_url=http://127.0.0.1:9/v1"]
    bare = ["compare", "--suite", 'jsonl(scorer="own_scorer:lenient")', "--data", "plain.jsonl", "--tools", "own_shop", "--loop"]
    assert whichloop(*bare, "bare", "--model", "openai/x", *QUIET, *nowhere, "-s", "provider.attempts=1").code in (0, 4)
    again = ["resume", "latest", "-q", *nowhere, "--allow", "own_shop"]
    assert "--allow own_scorer:lenient" in whichloop(*again).err
    (here / "own_scorer.py").write_text(source + "# changed\n")
    changed = whichloop(*again, "--allow", "own_scorer:lenient")
    assert (changed.code, changed.out) == (2, "")
    assert "changed since this run began: suite " in changed.err
    assert "where only scorers changed in it, judge the answers again: whichloop resume" in changed.err


DESK = """
class Desk:
    def __init__(self, task):
        self.stock = dict(task.world["stock"])
        self.tools = [self.order]

    def order(self, item: str, count: int) -> int:
        \"\"\"Order some of an item; gives how many are left.\"\"\"
        self.stock[item] -= count
        return self.stock[item]

    def state(self):
        return self.stock

    def close(self):
        pass
"""
ORDER = {
    "question": "Order two chairs. How many are left?",
    "answer": 2,
    "world": {"stock": {"chair": 4}},
    "end_state": {"chair": 2},
}


def test_each_trial_has_its_own_state_and_is_judged_by_it(whichloop, here):
    (here / "own_desk.py").write_text(DESK)
    row = ORDER
    plan = {
        "calls": [{"id": "c1", "tool": "order", "arguments": {"item": "chair", "count": 2}, "goal": "Order both chairs."}],
        "answer": {"$ref": "c1"},
    }
    wrong = {**row, "end_state": {"chair": 3}}
    (here / "orders.jsonl").write_text("".join(json.dumps({**made, "plan": plan}) + "\n" for made in (row, wrong)))
    flags = ["--suite", "jsonl", "--data", "orders.jsonl", "--tools", "own_desk:Desk", "--loop", "bare"]
    assert whichloop("compare", *flags, *QUIET).json["arms"][0]["accuracy"]["value"] == 0.5


SHOP = Path(__file__).parents[1] / "datasets" / "mcp_shop.py"
QUESTIONS = """question,answer,plan
"What does a lamp cost, in euros?",39.9,price(item='lamp')
"What does a chair cost, in euros?",120,price(item='chair')
"""


@pytest.fixture
def server(here):
    (here / "questions.csv").write_text(QUESTIONS)
    return f"mcp:{shlex.join([sys.executable, str(SHOP), 'drifts', str(here)])}"


def suite(server):
    return ("--suite", "csv", "--data", "questions.csv", "--tools", server)


def test_a_comparison_asks_the_server_and_goes_on_only_with_what_it_asked(whichloop, here, server):
    made = whichloop("compare", *suite(server), "--loop", "bare", "--loop", "finish", "--profile", "clean", *QUIET).json
    assert [arm["accuracy"]["value"] for arm in made["arms"]] == [1.0, 1.0]
    [file] = here.glob("runs/*/manifest.json")
    manifest = json.loads(file.read_text())
    entry = manifest["suite"]["tool_server"]
    assert (entry["name"], entry["version"], len(entry["tools"])) == ("shop", "2", 64)
    assert "code" not in manifest["suite"]

    run = str(file.parent)
    refused = whichloop("resume", run)
    assert refused.code == 2
    assert f"--allow {shlex.quote(server)}" in refused.err
    assert whichloop("resume", run, "--allow", server).code == 0
    (here / "changed").touch()
    refused = whichloop("resume", run, "--allow", server, "--repeats", "2")
    assert refused.code == 2
    assert "tool server" in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.slow
def test_the_same_digest_at_any_concurrency_and_in_workers(whichloop, server):
    flags = ("compare", *suite(server), "--loop", "bare", "--profile", "flaky-mcp", "--repeats", "4", *QUIET)
    ways = (("-s", "concurrency=1"), ("-s", "concurrency=4", "--workers", "2"))  # each worker has several trials at once
    digests = {whichloop(*flags, *more).json["digest"] for more in ways}
    assert len(digests) == 1


def test_a_server_that_dies_is_told_and_no_loop_is_scored_for_it(whichloop, server):
    dying = server.replace(" drifts ", " ends ")
    checked = whichloop("check", "plans", "questions.csv", "--tools", dying, "--run-tools").out
    told = "call 'call1': McpServerGone: its server has ended: the shop is closed"
    assert f"questions.csv, line 3: task 'questions-0002', {told}" in checked
    made = whichloop("compare", *suite(dying), "--loop", "bare", "--profile", "clean", "-q")
    assert made.code == 4
    assert "the shop is closed" in made.err + made.out


QUICK = ["--suite", "arithmetic(size=2)", "-q", "--profile", "clean"]
AGENT = """
import json, os, sys, urllib.request

def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

tools = json.load(urllib.request.urlopen(os.environ["WHICHLOOP_TOOLS_URL"]))
messages = [{"role": "user", "content": sys.stdin.read()}]
while True:
    asked = {"model": "gpt", "messages": messages, "tools": tools}
    reply = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", asked)["choices"][0]["message"]
    messages.append(reply)
    if not reply.get("tool_calls"):
        break
    for call in reply["tool_calls"]:
        seen = post(os.environ["WHICHLOOP_TOOLS_URL"] + "/" + call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen["data"]})
print(reply["content"])
"""
SOLVE = "def solve(question, tools): return 'not determined'"


@pytest.fixture
def agent(here: Path) -> str:
    (here / "agent.py").write_text(AGENT)
    (here / "guess.py").write_text(SOLVE)
    return "python agent.py"


def test_programs_stand_beside_loops(whichloop, agent):
    ended = whichloop("compare", "--loop", "finish", "--program", agent, "--program", "guess.py:solve", *QUICK, "--json")
    assert ended.code == 4  # one guesses, and never asks its model
    made = json.loads(ended.out)
    accuracies = {arm["arm"]: arm["accuracy"]["value"] for arm in made["arms"]}
    assert accuracies["finish/clean"] == accuracies["python agent.py/clean"] == 1.0
    assert accuracies["guess.py:solve/clean"] < 1.0
    assert "guess.py:solve" in whichloop("report", "--why", "latest").out


def test_a_run_starts_no_program_again_unless_it_is_typed(whichloop, agent, here):
    venv = here / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    own = "guess.py:solve(venv=venv)"
    guesses_without_a_model = 4
    assert whichloop("compare", "--program", agent, "--program", own, *QUICK).code == guesses_without_a_model
    (here / "agent.py").write_text(f"open({str(here / 'started')!r}, 'w')")
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "--allow 'python agent.py' --allow guess.py:solve --allow venv" in untyped.err
    assert not (here / "started").exists()
    allowed = ["--allow", agent, "--allow", "guess.py:solve", "--allow", "venv"]
    changed = whichloop("resume", "latest", "-q", *allowed)
    assert (changed.code, "arm python agent.py/clean (its code)" in changed.err) == (2, True)
    (here / "agent.py").write_text(AGENT)
    assert whichloop("resume", "latest", "-q", *allowed).code == guesses_without_a_model
