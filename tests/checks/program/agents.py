"""An agent whose every choice can be made well or badly, so that each outcome has one that earns it."""

import json
from dataclasses import dataclass

from whichloop import tunnel
from whichloop.programs.function import FunctionLoop


class GaveUp(Exception):
    """The agent has given up."""


@dataclass(frozen=True)
class Habits:
    """What an agent does where it may choose."""

    errors: str = "shown"
    """shown, hidden or raised."""
    extra: str = "refused"
    """refused, or dropped without a word."""
    answerless: str = "asked again"
    """asked again, asked blindly, taken for the answer, or raised: what becomes of a reply without a call before any result."""
    most: int | None = 10
    at_limit: str = "raises"
    """raises, answers with what came last, or returns None."""
    reminder: str = ""
    """What the model is told each turn, fault or not; `{number}` is the turn's."""
    only_first: bool = False
    """Whether it drops all calls of a reply but the first."""


def agent(habits):
    """Return a loop around OpenAI's client with these habits."""

    async def solve(question, tools):
        client = tunnel.AsyncOpenAI()
        messages = [{"role": "user", "content": question}]
        results: list[str] = []
        number = 0
        while habits.most is None or number < habits.most:
            number += 1
            said = await client.chat.completions.create(model=tunnel.MODEL, messages=messages, tools=tools.schemas)
            reply = said.choices[0].message
            if not reply.tool_calls:
                if (results and (reply.content or "").strip()) or habits.answerless == "taken":
                    return reply.content
                if habits.answerless == "raised":
                    raise GaveUp("no call and no result")
                if habits.answerless == "asked again":
                    messages.append({"role": "user", "content": "Call a tool, please."})
            else:
                calls = reply.tool_calls[: 1 if habits.only_first else None]
                said = reply.model_dump(exclude_none=True)
                messages.append(said | {"tool_calls": said["tool_calls"][: len(calls)]})
                for made in calls:
                    results.append(await run_call(made, tools, habits))
                    messages.append({"role": "tool", "tool_call_id": made.id, "content": results[-1]})
            if habits.reminder:
                messages.append({"role": "user", "content": habits.reminder.format(number=number)})
        if habits.at_limit == "raises":
            raise GaveUp("the limit is reached")
        return results[-1] if habits.at_limit == "answers" else None

    solve.__name__ = "habits"
    return FunctionLoop(solve)


async def run_call(made, tools, habits):
    try:
        arguments = json.loads(made.function.arguments)
        if not isinstance(arguments, dict):
            raise TypeError("the arguments must be an object, not a list")
        if habits.extra == "dropped":
            schemas = {one["function"]["name"]: one["function"]["parameters"] for one in tools.schemas}
            known = schemas[made.function.name]["properties"]
            arguments = {name: value for name, value in arguments.items() if name in known}
        return await tools.call(made.function.name, arguments)
    except Exception as error:
        if habits.errors == "raised":
            raise
        return f"Error: {error}" if habits.errors == "shown" else "That did not work."
