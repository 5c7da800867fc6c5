"""One and the same agent, an ordinary loop around OpenAI's client, in the ways in which whichloop can be given it."""

import json
import os
import sys
import urllib.request
from typing import Any

from openai import OpenAI

from whichloop import tunnel


def conversation(question, tools, client, model, call):
    messages = [{"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return reply.content
        for made in reply.tool_calls:
            try:
                result = call(made.function.name, json.loads(made.function.arguments))
            except Exception as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": made.id, "content": result})


def plain_function(question, tools, *, base_url, api_key, model):
    client = OpenAI(base_url=base_url, api_key=api_key)
    return conversation(question, tools.schemas, client, model, tools.call)


@tunnel.loop
def on_a_thread(question, tools, *, client, model):
    return conversation(question, tools.schemas, client, model, tools.call)


@tunnel.loop
async def in_the_event_loop(question, tools):
    client: Any = tunnel.AsyncOpenAI()
    messages = [{"role": "user", "content": question}]
    while True:
        said = await client.chat.completions.create(model=tunnel.MODEL, messages=messages, tools=tools.schemas)
        reply = said.choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return reply.content
        for made in reply.tool_calls:
            try:
                result = await tools.call(made.function.name, json.loads(made.function.arguments))
            except Exception as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": made.id, "content": result})


def main():
    url = os.environ["WHICHLOOP_TOOLS_URL"]

    def call(name, arguments):
        body = json.dumps(arguments).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", body, {"Content-Type": "application/json"})) as answer:
            seen = json.load(answer)
        if seen["status"] != "success":
            raise ValueError(seen["data"])
        return seen["data"]

    with urllib.request.urlopen(url) as answer:
        tools = json.load(answer)
    print(conversation(sys.stdin.read(), tools, OpenAI(), os.environ["OPENAI_MODEL"], call))


if __name__ == "__main__":
    main()
