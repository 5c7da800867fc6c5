"""LiteLLM, unmodified and in a process of its own, as a client of the server's Gemini API."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from loopbench.protocol import ContextOverflow, NativeCall, ProviderError, Reply, Usage

from .served import Book, fixed, run

LITELLM = """
import json, sys
import litellm

base, broken = sys.argv[1:]
litellm.suppress_debug_info = True
ask = dict(model="gemini/scripted", api_key="none", num_retries=0, max_retries=0)
ask["_skip_mcp_handler"] = True  # 1.106 looks for its extra `mcp` wherever tools are given
numbers = {key: {"type": "integer"} for key in "ab"}
parameters = {"type": "object", "properties": numbers, "required": ["a", "b"], "additionalProperties": False}
add = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": parameters}}
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What comes out?"}]
found = {}


def calls(message):
    return [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls]


made = litellm.completion(messages=messages, tools=[add], api_base=base + "/v1beta", **ask)
found["calls"], found["tokens"] = calls(made.choices[0].message), made.usage.total_tokens
chunks = list(litellm.completion(messages=messages, tools=[add], stream=True, api_base=base + "/v1beta", **ask))
found["stream"] = calls(litellm.stream_chunk_builder(chunks).choices[0].message)
messages.append(made.choices[0].message.model_dump())
messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in made.choices[0].message.tool_calls]
forced = {"type": "function", "function": {"name": "add"}}
litellm.completion(messages=messages, tools=[add], tool_choice=forced, max_tokens=99, api_base=base + "/v1beta", **ask)
found["errors"] = []
for trial in broken.split(","):
    try:
        litellm.completion(messages=messages[:2], api_base=base + "/t/" + trial + "/v1beta", **ask)
    except Exception as error:
        found["errors"].append(type(error).__name__)
print(json.dumps(found))
"""


@pytest.mark.thorough
def test_litellm_unmodified():
    calls = (NativeCall("call_0", "add", '{"a": 1, "b": 2}'), NativeCall("call_1", "add", '{"a": 3, "b": 4}'))
    broken = {
        "limited": fixed(ProviderError("no", "rate_limit")),
        "failed": fixed(ProviderError("no", "server")),
        "busy": fixed(ProviderError("no", "overloaded")),
        "long": fixed(ContextOverflow("the context holds 8 tokens")),
    }
    book = Book(any=fixed(Reply("I add.", calls, Usage(10, 5), "tool_calls")), **broken)

    async def work(server: Any, _: Any) -> Any:
        command = [sys.executable, "-c", LITELLM, server.url, ",".join(broken)]
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
        child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return json.loads(out.splitlines()[-1])

    found = run(work, book)
    assert found["calls"] == found["stream"] == [["add", {"a": 1, "b": 2}], ["add", {"a": 3, "b": 4}]]
    assert found["tokens"] == 15
    assert found["errors"] == ["RateLimitError", "InternalServerError", "ServiceUnavailableError", "ContextWindowExceededError"]
    told = book.asked[2].request
    question, calling, *results = told.messages[-4:]  # LiteLLM has taken the system message out of its caller's list
    assert [message.role for message in (question, calling, *results)] == ["user", "assistant", "tool", "tool"]
    assert [message.call_id for message in results] == ["call_0", "call_1"]
    assert (calling.calls, told.tool_choice, told.sampling.max_tokens) == (calls, "add", 99)
