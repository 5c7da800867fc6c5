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
    sys.stderr.write("x" * 5_000_000 + "\n")
    return await while_loop(task)


async def gives(task):
    """What the question says: a long answer, one too long, or one that is no JSON."""
    return {"long": "x" * 3_000_000, "flood": "x" * 40_000_000, "keys": {(1, 2): 3}}[task.question]


async def raises(task):
    raise {"raise": LookupError("where is it?"), "exit": SystemExit(3)}[task.question]


async def dies(task):
    """Ends its process, in the first trial only if the question names a file that remembers that."""
    marker = task.question.split()[-1]
    if os.path.isabs(marker) and os.path.exists(marker):
        return os.getpid()
    if os.path.isabs(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(7)


async def blocks(task):
    if task.question == "block":
        time.sleep(600)
    return os.getpid()


def blocks_on_a_thread(question, tools):
    if question == "block":
        time.sleep(600)
    return os.getpid()


async def own_pid(task):
    await asyncio.sleep(0.05)
    return os.getpid()


async def answers_at_the_limit(task):
    raise task.StepLimit("the best so far")
