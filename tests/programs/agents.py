"""One and the same agent, an ordinary loop around OpenAI's client, as functions of this process."""

import json
from typing import Any

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
