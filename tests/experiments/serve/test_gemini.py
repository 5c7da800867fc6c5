"""Whole trials over Gemini's API: by Google's client, and by our own loops as a real model; and tools that every vendor takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import httpx
import pytest

from whichloop.datasets import arithmetic, calculator
from whichloop.datasets.task import Suite
from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.loops.finish import Finish
from whichloop.models.local.model import open_model
from whichloop.models.profiles import load_profile
from whichloop.models.server import OwnRequest, Server
from whichloop.models.wires.base import Incoming
from whichloop.models.wires.chat import CHAT
from whichloop.protocol import Query, Toolbox, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import generated_suites, make_suite

MOST_CALLS = 20


def small_suite() -> Suite:
    suite = arithmetic.load()
    return replace(suite, tasks=suite.tasks[:2])


def serve(work: Callable[[str, httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
    """Serve the suite and do the work, given the server's address and an HTTP client."""
    trials = SuiteTrials(small_suite(), load_profile("clean"))

    async def whole() -> Any:
        async with Server(trials, more=trials.more) as server, httpx.AsyncClient(verify=False, timeout=30) as http:
            return await work(server.url, http)

    try:
        return asyncio.run(whole())
    finally:
        trials.close()


async def scores(url: str, http: httpx.AsyncClient, solve: Callable[[Any], Coroutine[Any, Any, Any]]) -> list[float]:
    found = []
    for entry in (await http.get(f"{url}/tasks")).json()["tasks"]:
        answer = await solve(entry)
        found.append((await http.post(f"{url}/t/{entry['trial']}/answer", json={"answer": answer})).json()["score"])
    return found


def test_google_s_client_solves_every_task_with_functions_of_its_own():
    genai = pytest.importorskip("google.genai")

    async def work(url: str, http: httpx.AsyncClient) -> list[float]:
        async def solve(entry: Any) -> str:
            options = {"base_url": f"{url}/t/{entry['trial']}", "httpx_async_client": http}
            client = genai.Client(api_key="none", http_options=options).aio
            calling = {"maximum_remote_calls": MOST_CALLS}
            config = {"tools": [tool.function for tool in calculator.TOOLS], "automatic_function_calling": calling}
            chat = client.chats.create(model="scripted", config=config)
            return str((await chat.send_message(f"Solve this. {entry['question']}")).text)

        return await scores(url, http, solve)

    assert serve(work) == [1.0] * 2


@pytest.mark.parametrize("kept", [("functionCall", "thoughtSignature"), ("functionCall",)], ids=["signature", "neither"])
def test_a_client_that_drops_the_ids_of_calls_is_understood(kept):
    functions = {tool.name: tool.function for tool in calculator.TOOLS}

    def outcome(call: Any) -> dict[str, Any]:
        try:
            return {"result": functions[call["name"]](**call["args"])}
        except ArithmeticError as error:
            return {"error": str(error)}

    async def work(url: str, http: httpx.AsyncClient) -> list[float]:
        async def solve(entry: Any) -> str:
            root = url if "thoughtSignature" in kept else f"{url}/t/{entry['trial']}"
            contents: list[Any] = [{"role": "user", "parts": [{"text": f"Solve this. {entry['question']}"}]}]
            body = {"tools": [{"functionDeclarations": [{"name": name, "parameters": {"type": "OBJECT"}} for name in functions]}]}
            while True:
                asked = await http.post(f"{root}/v1beta/models/scripted:generateContent", json=body | {"contents": contents})
                parts = asked.json()["candidates"][0]["content"]["parts"]
                calls = [part["functionCall"] for part in parts if "functionCall" in part]
                if not calls:
                    return str(parts[0]["text"])
                for call in calls:
                    del call["id"]
                contents.append(
                    {
                        "role": "model",
                        "parts": [{name: part[name] for name in kept if name in part} for part in parts[-len(calls) :]],
                    }
                )
                results = [{"name": call["name"], "response": outcome(call)} for call in calls]
                contents.append({"role": "user", "parts": [{"functionResponse": result} for result in results]})

        return await scores(url, http, solve)

    assert serve(work) == [1.0] * 2


def test_a_loop_of_ours_solves_every_task_on_a_model_by_its_name():
    loop = Finish(max_steps=MOST_CALLS)

    async def work(url: str, http: httpx.AsyncClient) -> list[float]:
        async def solve(entry: Any) -> Any:
            model = open_model("gemini/scripted", f"{url}/t/{entry['trial']}/v1beta")
            try:
                return (await loop.run(Query(entry["question"]), Toolbox(calculator.TOOLS), model)).answer
            finally:
                await model.aclose()

        return await scores(url, http, solve)

    assert serve(work) == [1.0] * 2


@pytest.mark.parametrize("name", generated_suites())
def test_every_tool_of_a_suite_is_taken(name: str) -> None:
    suite = make_suite(parse_spec(name))
    trials = SuiteTrials(replace(suite, tasks=suite.tasks[::8]), load_profile("clean"))
    try:
        listed = run_sync(trials.more(OwnRequest("GET", ("tasks",))))["tasks"]
    finally:
        trials.close()
    distinct = {repr(entry["tools"]): entry["tools"] for entry in listed}
    assert distinct
    for tools in distinct.values():
        body: Any = {"model": "scripted", "messages": [{"role": "user", "content": "?"}], "tools": tools}
        read = CHAT.read(Incoming(body))
        assert [tool.name for tool in read.request.tools] == [tool["function"]["name"] for tool in tools]
