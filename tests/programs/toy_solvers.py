"""Solvers that run in a worker with this interpreter; they import nothing of ours, as a framework would not."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request


def _ask(task, messages):
    body = {"model": task.model, "messages": messages, "tools": task.sync_tools.schemas}
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {task.api_key}"}
    request = urllib.request.Request(f"{task.base_url}/chat/completions", json.dumps(body).encode(), head)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def _solved(task):
    messages = [{"role": "user", "content": task.question}]
    for _ in range(task.max_steps):
        reply = _ask(task, messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply["content"]
        for call in reply["tool_calls"]:
            said = call["function"]
            try:
                result = task.sync_tools.call(said["name"], json.loads(said["arguments"]))
            except task.ToolError as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise task.StepLimit


async def while_loop(task):
    return await task.in_thread(lambda: _solved(task))


async def prints(task):
    print("not JSON", flush=True)
    sys.stdout.write("{}\n" * 1000)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return await while_loop(task)


async def floods_errors(task):
    sys.stderr.write("x" * 5_000_000 + "\n")
    return await while_loop(task)


async def floods_the_answer(task):
    return "x" * 3_000_000


async def bursts(task):
    return "x" * 40_000_000


async def gives_odd_keys(task):
    return {(1, 2): 3}


async def gives_itself(task):
    answer: list[object] = []
    answer.append(answer)
    return answer


async def raises_the_unsayable(task):
    class Unsayable(Exception):
        def __str__(self):
            raise ValueError("no")

    raise Unsayable


async def leaves_a_child(task):
    return subprocess.Popen(["sleep", "300"]).pid


async def dies(task):
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(7)


async def dies_once(task):
    """Ends its process in the first trial; the file that the question names remembers that."""
    marker = task.question.split()[-1]
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


async def raises(task):
    raise LookupError("where is it?")


async def exits(task):
    raise SystemExit(3)


async def hangs(task):
    await asyncio.Event().wait()


async def blocks(task):
    if task.question != "block":
        return os.getpid()
    time.sleep(600)


def blocks_on_a_thread(question, tools):
    if question != "block":
        return os.getpid()
    time.sleep(600)


async def hangs_in_the_model(task):
    return await task.in_thread(lambda: _ask(task, [{"role": "user", "content": task.question}]))


async def own_pid(task):
    await asyncio.sleep(0.05)
    return os.getpid()


async def answers_at_the_limit(task):
    raise task.StepLimit("the best so far")


async def gives_a_set(task):
    return {1}


def plain(question, tools, *, base_url, api_key, model):
    return f"{question} {len(tools)} {base_url.rsplit('/', 1)[-1]} {api_key} {model}"


async def short(question, tools):
    return " ".join(function.__name__ for function in tools)
