"""A framework alone: its wiring before a plain server that replies from a prepared list, with tools that return at once.

python benchmarks/plain_worker.py RUNNER WIRING, in the framework's environment; {"tools", "question", "options", "trials",
"together"} on standard input. Prints the CPU milliseconds of this process per trial; the server is a process of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from types import ModuleType
from typing import Any

WARM_UP = 8
SUMS = [(1, 2), (3, 3), (6, 4)]


def reply(place: int, model: str) -> dict[str, Any]:
    """The reply to the request at a place of the conversation: three calls, one after the other, then the answer."""
    message: dict[str, Any] = {"role": "assistant", "content": "10"}
    if place < len(SUMS):
        a, b = SUMS[place]
        call = {"name": "add", "arguments": json.dumps({"a": a, "b": b})}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{place}", "type": "function", "function": call}],
        }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if place < len(SUMS) else "stop", "logprobs": None}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}


class PlainServer(asyncio.Protocol):
    """The least that an OpenAI client takes for a server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.seen = transport, b""

    def data_received(self, data: bytes) -> None:
        self.seen += data
        head, found, body = self.seen.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        if not found or len(body) < length:
            return
        self.seen = b""
        asked = json.loads(body)
        place = sum(message["role"] == "assistant" for message in asked["messages"])
        made = json.dumps(reply(place, asked["model"])).encode()
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(made), made)
        )


def serve(port: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(PlainServer, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def loaded(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # of a file that is there
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def measured(runner: Any, solve: Any, job: dict[str, Any]) -> float:
    """CPU milliseconds per trial."""

    async def add(name: str, arguments: dict[str, Any]) -> str:
        return str(arguments["a"] + arguments["b"])

    async def one() -> None:
        task = runner.SolverTask(job, asyncio.get_running_loop())
        task.tools = runner.Tools(job["tools"], add, True)
        task.sync_tools = runner.Tools(job["tools"], lambda name, arguments: str(arguments["a"] + arguments["b"]), False)
        answer = str(await solve(task))
        assert "10" in answer, answer

    async def some(count: int) -> None:
        waiting = list(range(count))

        async def work() -> None:
            while waiting:
                waiting.pop()
                await one()

        await asyncio.gather(*(work() for _ in range(job["together"])))

    await some(WARM_UP)
    started = time.process_time()
    await some(job["trials"])
    return 1000 * (time.process_time() - started) / int(job["trials"])


def main() -> None:
    job = json.load(sys.stdin)
    port = multiprocessing.get_context("fork").Queue()
    server = multiprocessing.get_context("fork").Process(target=serve, args=(port,), daemon=True)
    server.start()
    job |= {"url": f"http://127.0.0.1:{port.get()}", "model": "scripted", "max_steps": 10, "id": 0}
    runner = loaded("whichloop_runner", sys.argv[1])
    solve = loaded("whichloop_solver", sys.argv[2]).solve
    out = os.dup(1)
    os.dup2(2, 1)
    spent = asyncio.run(measured(runner, solve, job))
    os.write(out, f"{json.dumps({'cpu_ms': spent})}\n".encode())
    server.terminate()
    os._exit(0)  # threads of frameworks shall not keep it alive


if __name__ == "__main__":
    main()
