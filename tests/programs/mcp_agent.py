"""An agent that knows the official MCP SDK and OpenAI's client, and nothing of whichloop: python mcp_agent.py http|stdio ...

It answers the question once for each way to reach the tools.
"""

import asyncio
import json
import os
import shlex
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from openai import AsyncOpenAI


def server(way):
    if way == "http":
        return os.environ["WHICHLOOP_MCP_URL"]
    command, *arguments = shlex.split(os.environ["WHICHLOOP_MCP_COMMAND"])
    return StdioServerParameters(command=command, args=arguments)


def _client() -> Any:
    return AsyncOpenAI()


def _text(seen: Any) -> str:
    return str(seen.content[0].text)


async def answer(question, way):
    async with Client(server(way)) as tools, _client() as model:
        listed = (await tools.list_tools()).tools
        named = [{"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in listed]
        offered = [{"type": "function", "function": function} for function in named]
        messages = [{"role": "user", "content": question}]
        while True:
            said = await model.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=messages, tools=offered)
            reply = said.choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                return reply.content
            for call in reply.tool_calls:
                seen = await tools.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": _text(seen)})


question = sys.stdin.read()
for way in sys.argv[1:]:
    print(asyncio.run(answer(question, way)))
