"""LiteLLM, unmodified and in a process of its own, as a client of the server's four APIs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from whichloop.protocol import ContextOverflow, NativeCall, ProviderError, Reply, Usage

from . import bench
from .served import Book, fixed, of, run

pytestmark = pytest.mark.slow

LITELLM = """
import json, sys
import litellm

root, broken, broken_gemini, wires = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","), json.loads(sys.argv[4])
litellm.suppress_debug_info = True
plain = dict(api_key="none", num_retries=0, max_retries=0)
plain["_skip_mcp_handler"] = True  # 1.106 looks for its extra `mcp` wherever tools are given


def tool(name, required, **properties):
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    if required:
        parameters |= {"required": [*properties], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "Adds.", "parameters": parameters}}


question = {"role": "user", "content": "What comes out?"}


def errors(trials, end, **ask):
    found = []
    for trial in trials:
        try:
            litellm.completion(api_base=f"{root}/t/{trial}{end}", **ask)
        except Exception as error:
            found.append(type(error).__name__)
    return found


def calls(message):
    return [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls]


def asked_gemini():
    add, found = tool("add", True, a="integer", b="integer"), {}
    ask = dict(model="gemini/scripted", api_base=root + "/v1beta", **plain)
    messages = [{"role": "system", "content": "Be brief."}, question]
    made = litellm.completion(messages=messages, tools=[add], **ask)
    found["calls"], found["tokens"] = calls(made.choices[0].message), made.usage.total_tokens
    chunks = list(litellm.completion(messages=messages, tools=[add], stream=True, **ask))
    found["stream"] = calls(litellm.stream_chunk_builder(chunks).choices[0].message)
    messages.append(made.choices[0].message.model_dump())
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in made.choices[0].message.tool_calls]
    forced = {"type": "function", "function": {"name": "add"}}
    litellm.completion(messages=messages, tools=[add], tool_choice=forced, max_tokens=99, **ask)
    found["errors"] = errors(broken_gemini, "/v1beta", model="gemini/scripted", messages=messages[:2], **plain)
    return found


def asked(model, end):
    add, submit = tool("add", False, a="integer", b="integer"), tool("submit", False, answer="string")
    base, found = f"{root}/t/{model.replace('/', '-')}{end}", {}
    ask = dict(model=model, messages=[question], **plain)
    made = litellm.completion(tools=[add], api_base=base, **ask)
    (found["tools"],) = calls(made.choices[0].message)
    forced = {"type": "function", "function": {"name": "submit"}}
    made = litellm.completion(tools=[add, submit], tool_choice=forced, api_base=base, **ask)
    found["forced"] = made.choices[0].message.tool_calls[0].function.name
    chunks = list(litellm.completion(tools=[add], stream=True, api_base=base, **ask))
    whole = litellm.stream_chunk_builder(chunks)
    found["stream"] = whole.choices[0].message.tool_calls[0].function.arguments
    found["errors"] = errors(broken, end, **ask)
    return found


print(json.dumps({"gemini": asked_gemini(), **{model: asked(model, end) for model, end in wires.items()}}))
"""
WIRES = {"openai/scripted": "/v1", "openai/responses/scripted": "/v1", "anthropic/scripted": ""}
"""What LiteLLM calls the model → where the address ends; Gemini's aside."""
BROKEN = ("limited", "failed", "long", "gone")
BROKEN_GEMINI = ("limited", "failed", "busy", "long")
CALLS = (NativeCall("call_0", "add", '{"a": 1, "b": 2}'), NativeCall("call_1", "add", '{"a": 3, "b": 4}'))


@pytest.fixture(scope="module")
def book() -> Book:
    """The trials, and what was asked of them."""
    broken = {
        "limited": fixed(ProviderError("no", "rate_limit")),
        "failed": fixed(ProviderError("no", "server")),
        "busy": fixed(ProviderError("no", "overloaded")),
        "long": fixed(ContextOverflow("the context holds 8 tokens")),
        "gone": fixed(ProviderError("no", "connection")),
    }
    served = {model.replace("/", "-"): of(bench.Bench(bench.chain(1)), tools=("add", "concat", "reject")) for model in WIRES}
    return Book(any=fixed(Reply("I add.", CALLS, Usage(10, 5), "tool_calls")), **served, **broken)


@pytest.fixture(scope="module")
def unmodified(book: Book) -> dict[str, Any]:
    """What LiteLLM makes of the replies on each wire, in one process: its import takes most of the time."""

    async def work(server: Any, _: Any) -> Any:
        arguments = [server.url, ",".join(BROKEN), ",".join(BROKEN_GEMINI), json.dumps(WIRES)]
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LITELLM, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return json.loads(out.splitlines()[-1])

    found: dict[str, Any] = run(work, book)
    return found


@pytest.mark.parametrize("model", WIRES)
def test_litellm_unmodified(unmodified: dict[str, Any], model: str) -> None:
    found = unmodified[model]
    assert found["tools"] == ["add", {"a": 1, "b": 1}]
    assert found["forced"] == "submit"
    streamed = found["stream"]
    if "/responses/" in model:  # LiteLLM says the arguments of a finished item again: BerriAI/litellm#22553
        streamed = streamed[: len(streamed) // 2] if streamed[: len(streamed) // 2] * 2 == streamed else streamed
    assert json.loads(streamed) == {"a": 1, "b": 1}
    assert found["errors"] == ["RateLimitError", "InternalServerError", "ContextWindowExceededError", "InternalServerError"]


def test_litellm_unmodified_as_a_client_of_gemini(unmodified: dict[str, Any], book: Book) -> None:
    found = unmodified["gemini"]
    assert found["calls"] == found["stream"] == [["add", {"a": 1, "b": 2}], ["add", {"a": 3, "b": 4}]]
    assert found["tokens"] == 15
    assert found["errors"] == ["RateLimitError", "InternalServerError", "ServiceUnavailableError", "ContextWindowExceededError"]
    told = book.asked[2].request
    question, calling, *results = told.messages[-4:]  # LiteLLM has taken the system message out of its caller's list
    assert [message.role for message in (question, calling, *results)] == ["user", "assistant", "tool", "tool"]
    assert [message.call_id for message in results] == ["call_0", "call_1"]
    assert (calling.calls, told.tool_choice, told.sampling.max_tokens) == (CALLS, "add", 99)
