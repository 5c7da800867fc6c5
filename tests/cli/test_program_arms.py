"""Programs of the user's own as arms, end to end: --program in each command that takes loops, and what each of them may start."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from whichloop.metrics.record import Record
from whichloop.runs.store.trials import each_record

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

pytestmark = pytest.mark.thorough  # each starts a process per trial


@pytest.fixture
def agent(here: Path) -> str:
    (here / "agent.py").write_text(AGENT)
    (here / "guess.py").write_text(SOLVE)
    return "python agent.py"


def records(run: Path) -> list[Record]:
    return list(each_record(run))


def latest(here: Path) -> Path:
    return max((here / "runs").iterdir())


def test_programs_stand_beside_loops(whichloop, agent):
    ended = whichloop("compare", "--loop", "finish", "--program", agent, "--program", "guess.py:solve", *QUICK, "--json")
    assert ended.code == 4  # one guesses, and never asks its model
    made = json.loads(ended.out)
    accuracies = {arm["arm"]: arm["accuracy"]["value"] for arm in made["arms"]}
    assert accuracies["finish/clean"] == accuracies["python agent.py/clean"] == 1.0
    assert accuracies["guess.py:solve/clean"] < 1.0
    assert "guess.py:solve" in whichloop("report", "--why", "latest").out


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_program_in_another_language(whichloop, agent, here):
    code = "console.log(process.env.WHICHLOOP_QUESTION.length > 0 ? 'not determined' : '')"
    (here / "agent.mjs").write_text(code)
    ended = whichloop("compare", "--program", "node agent.mjs", *QUICK, "--json")
    made = json.loads(ended.out)
    assert [(arm["arm"], arm["scored"]) for arm in made["arms"]] == [("node agent.mjs/clean", 2)]
    assert ended.code == 4
    assert "node agent.mjs/clean: never asked its model in 2 trials" in made["warnings"][0]["text"]
    assert {record.answer for record in records(latest(here))} == {"not determined"}


@pytest.mark.parametrize(
    ("code", "stop", "reason"),
    [
        ("import sys; sys.exit('out of luck')", "crashed", "SolverFailed: exit code 1: out of luck"),
        ("pass", "crashed", "SolverFailed: it ended without an answer: it printed nothing, and posted none"),
        ("while True: print('x' * 99999)", "crashed", "SolverFailed: flood: it printed more than 1,048,576 bytes"),
        ("import time; time.sleep(600)", "timeout", "no end, and no request or call for 3 s"),
        ("import os, time; os.fork() or time.sleep(600); print('the parent ends', flush=True); os._exit(0)", "finished", ""),
    ],
)
def test_whatever_a_process_does_ends_in_a_clear_record(whichloop, here, code, stop, reason):
    (here / "bad.py").write_text(code)
    words = ["--suite", "arithmetic(size=1)", "--profile", "clean", "-q", "-s", "trial_timeout_s=3"]
    ended = whichloop("compare", "--program", "python bad.py", *words)
    record = records(latest(here))[0]
    assert (ended.code, record.status, record.stop) == (4, "scored", stop), record.reason  # 4: none of them is an agent
    assert record.reason.startswith(reason)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ([""], "--program: write a command line, my.module:function or FILE.py:function"),
        (["no-such-program"], "there is no 'no-such-program' to run"),
        (["missing:solve"], "ModuleNotFoundError: No module named 'missing'"),
        (["guess.py:other"], "has no function 'other'"),
        (["python agent.py(venv=nowhere)"], "venv: nowhere has no bin/python"),
        (['python agent.py(keys=["NO_SUCH_KEY"])'], "keys: the environment has no NO_SUCH_KEY"),
        (["python agent.py(speed=3)"], "unknown option 'speed'"),
        (["python agent.py", "python agent.py"], "is given twice"),
        (["python agent.py(label=a)", "guess.py:solve(label=a)"], "two arms are both called 'a/clean'; give one of them a name"),
    ],
)
def test_what_cannot_run_is_one_line_before_anything_runs(whichloop, agent, here, programs, said):
    words = [word for program in programs for word in ("--program", program)]
    ended = whichloop("compare", *words, *QUICK)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (here / "runs").exists()


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


def test_a_program_is_added_to_a_run_and_gated(whichloop, agent, here):
    assert whichloop("compare", "--loop", "finish", *QUICK).code == 0
    assert whichloop("resume", "latest", "--add-loop", f"program(command={agent!r})", "-q").code == 0
    assert {record.arm for record in records(latest(here))} == {"finish/clean", "python agent.py/clean"}
    assert whichloop("compare", "--program", agent, *QUICK).code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "base.json").code == 0
    gated = whichloop("gate", "--baseline", "base.json", "--allow", agent, "-q", "--json")
    assert (gated.code, json.loads(gated.out)["outcome"]) == (0, "pass")
    (here / "agent.py").write_text("print('no idea')")
    worse = whichloop("gate", "--baseline", "base.json", "--allow", agent, "-q", "--json")
    judged = json.loads(worse.out)
    assert (worse.code, judged["outcome"]) == (4, "invalid")
    assert judged["reasons"][0]["code"] == "never_asked"


@pytest.mark.slow
def test_an_option_of_a_program_is_ablated(whichloop, agent):
    loop = 'program(command="python agent.py")'
    made = whichloop("compare", "--loop", loop, "--vary", "max_steps=1,9", *QUICK, "--json").json
    assert {arm["arm"] for arm in made["arms"]} == {"python agent.py(max_steps=1)/clean", "python agent.py(max_steps=9)/clean"}


def test_keys_stay_here_unless_they_are_named(whichloop, here, monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", "word")
    (here / "show.py").write_text("import os; print(os.environ.get('SEARCH_API_KEY', 'none'))")
    words = ["--suite", "arithmetic(size=1)", "-q", "--profile", "clean"]
    named = 'python show.py(keys=["SEARCH_API_KEY"], label=named)'
    assert whichloop("compare", "--program", "python show.py", "--program", named, *words).code == 4  # no agents
    assert {record.arm: record.answer for record in records(latest(here))} == {
        "python show.py/clean": "none",
        'named(keys=["SEARCH_API_KEY"])/clean': "word",
    }


def test_it_is_listed_with_its_options(whichloop):
    listed = {entry["name"]: entry for entry in whichloop("list", "loops", "--json").json}
    assert {"command", "venv", "python", "keys", "processes", "label"} <= {
        option["name"] for option in listed["program"]["options"]
    }
