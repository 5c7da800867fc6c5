"""Executables: whatever a process does, its trial ends in a clear record, and nothing outlasts it."""

import asyncio
import os
import shlex
import signal
import time

import pytest

from tests.processes import is_alive
from tests.programs.bench import TOOLS, answering, run
from whichloop.models.fake import FakeModel
from whichloop.programs.loop import MAX_ANSWER_BYTES
from whichloop.programs.program import Program
from whichloop.programs.worker import SolverFailed
from whichloop.protocol import Act, Answer, BudgetExceeded, ProviderError, Query, StopReason, ToolCall

pytestmark = pytest.mark.thorough  # each starts a process

ASK = """
import json, os, sys, urllib.request
def post(url, body):
    head = {"Content-Type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head)))
listed = json.load(urllib.request.urlopen(os.environ["WHICHLOOP_TOOLS_URL"]))
def ask(text):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}], "tools": listed}
    return post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)["choices"][0]["message"]
"""


def python(code, **options):
    return Program(shlex.join(["python", "-c", code]), **options)


def test_the_question_comes_in_both_ways_and_the_answer_is_what_is_printed():
    code = "import os, sys; asked = sys.stdin.read(); print(asked, os.environ['WHICHLOOP_QUESTION'] == asked)"
    assert run(python(code), question="What is ü?").answer == "What is ü? True"


def test_it_asks_the_model_and_calls_tools():
    code = f"""{ASK}
assert [tool["function"]["name"] for tool in listed] == ["double", "fail"] and listed[0]["type"] == "function"
call = ask("?")["tool_calls"][0]["function"]
print(post(os.environ["WHICHLOOP_TOOLS_URL"] + "/" + call["name"], json.loads(call["arguments"]))["data"])
"""
    outcome = run(python(code), FakeModel(Act("", (ToolCall("double", {"n": 4}),))))
    assert (outcome.answer, outcome.stop, outcome.steps) == ("8", StopReason.FINISHED, 1)


def test_it_is_told_its_limit_and_gets_no_reply_beyond_it():
    code = f"{ASK}\nassert os.environ['WHICHLOOP_MAX_STEPS'] == '3'\nwhile True: ask('again')"
    model = answering()
    outcome = run(python(code, max_steps=3), model)
    assert (outcome.stop, len(model.requests)) == (StopReason.MAX_STEPS, 3)


def test_a_providers_failure_that_ends_it_is_the_providers_and_a_used_up_budget_leaves_the_run():
    model = FakeModel(then=ProviderError("overloaded", "server", status=500))
    assert run(python(f"{ASK}\nask('?')"), model).stop is StopReason.PROVIDER_ERROR
    with pytest.raises(BudgetExceeded):
        run(python(f"{ASK}\ntry: ask('?')\nexcept Exception: print('42')"), FakeModel(BudgetExceeded("no more")))


def test_an_answer_that_it_posts_counts_and_not_what_it_prints_and_the_last_one_that_it_posts():
    url = "os.environ['WHICHLOOP_ANSWER_URL']"
    code = f"{ASK}\npost({url}, {{'answer': '41'}})\npost({url}, {{'answer': '42'}})\nprint('done in 3 s')"
    assert run(python(code)).answer == "42"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('the pump is dry')", "exit code 1: the pump is dry"),
        ("open('/dev/stderr', 'w').write('dry'); open('/dev/stderr', 'w'); raise SystemExit(1)", "exit code 1: dry"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV: it wrote nothing"),
        ("pass", "ended without an answer: it printed nothing, and posted none"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", f"flood: it printed more than {MAX_ANSWER_BYTES:,} bytes"),
    ],
)
def test_each_end_without_an_answer_says_what_happened(code, said):
    with pytest.raises(SolverFailed, match=f"{said}"):
        run(python(code))


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("import sys; sys.stdout.buffer.write(b'\\xff\\x00 garbage')", "\ufffd\x00 garbage"),
        ("import sys; sys.stderr.write('x' * 5_000_000); print('42')", "42"),
        ("print('thinking', flush=True); open('/dev/stdout', 'w').write('42')", "thinking\n42"),
        ("import sys; print(len(sys.stdin.read()))", "5000000"),
    ],
)
def test_what_is_odd_is_still_an_answer(code, answer):
    assert run(python(code), question="x" * 5_000_000).answer == answer


FORKS = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], {more})"


@pytest.mark.parametrize("more", ["", "start_new_session=True"])
def test_what_it_started_ends_with_it_or_does_not_hold_its_trial_up(more):
    pid = int(run(python(f"{FORKS.format(more=more)}; print(child.pid)")).answer)
    if more:
        os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.01)


def test_a_cancelled_trial_kills_the_process_and_its_children(tmp_path):
    path = tmp_path / "pids"
    code = f"{FORKS.format(more='')}; import os; open({str(path)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} '); child.wait()"

    async def cancelled():
        running = asyncio.create_task(python(code).run(Query("?"), TOOLS, answering()))
        while not path.exists() or not path.read_text().endswith(" "):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while any(map(is_alive, map(int, path.read_text().split()))):
            await asyncio.sleep(0.01)

    asyncio.run(cancelled())


def test_no_more_processes_run_at_a_time_than_the_arm_may_have(tmp_path):
    own = f"own = os.path.join({str(tmp_path)!r}, str(os.getpid()))"
    here = f"import os, time; {own}; open(own, 'w').close(); time.sleep(0.1)"
    code = f"{here}; print(len(os.listdir(os.path.dirname(own)))); os.remove(own)"

    async def many():
        loop = python(code, processes=2)
        ended = await asyncio.gather(*(loop.run(Query("?"), TOOLS, FakeModel(then=Answer("", "42"))) for _ in range(6)))
        return [int(outcome.answer) for outcome in ended]

    assert max(asyncio.run(many())) <= 2
