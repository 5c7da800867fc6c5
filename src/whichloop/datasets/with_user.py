"""The environment of a task that has a user: the tools to talk with them stand beside the environment's own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from whichloop.protocol import Message, Model, Request, Role, Tool
from whichloop.protocol.digest import canonical_json

from .scripted_user import (
    NOTHING_MORE,
    NOTHING_TO_SAY,
    USER_TOOLS,
    ProposedCall,
    ScriptedTalk,
    ScriptedUser,
    Topic,
    User,
    tell_user,
)
from .task import Environment
from .worlds import Toolset

_YES = re.compile(r"\W*yes\b", re.IGNORECASE)


def instructions(script: ScriptedUser) -> str:
    """Return the script as instructions to the model that plays the user."""
    parts = [
        "You play a user who talks with an agent. Speak as this user, in the first person, and briefly. Say nothing of yourself or "
        f"of your wishes that is not written below; if you are asked for anything else, say: {NOTHING_TO_SAY}",
        *(f"What you say when you are asked about {topic}:\n{text or NOTHING_TO_SAY}" for topic, text in script.says.items()),
    ]
    changes = [f"- {_call(change)}" for change in script.agrees_to]
    if changes:
        parts.append(
            "\n".join(["The agent asks you before it changes anything. Say yes to these changes, and no to all others:", *changes])
        )
    else:
        parts.append("The agent asks you before it changes anything. Say no to all changes.")
    for number, request in enumerate(script.further, start=1):
        what = " and ".join(f"it has made the change {_call(change)}" for change in request.after)
        when = what or "what you asked before is dealt with"
        parts.append(
            f"Your further request {number}, of which you say nothing until the agent has told you that {when}:\n{request.says}"
        )
    parts.append(
        f"When the agent tells you that something is done, raise your next further request; if none is left, say: {NOTHING_MORE}"
    )
    return "\n\n".join(parts)


def _call(change: ProposedCall) -> str:
    return f"{change.action} {canonical_json(dict(change.arguments))}"


class ModelledUser:
    """A user in one trial, played by a model. The talk is one conversation: what is asked at once is answered in turn.

    What the model raises passes through.
    """

    def __init__(self, script: ScriptedUser, model: Model) -> None:
        self._model = model
        self._messages = [Message("system", instructions(script))]
        self._turn = asyncio.Lock()

    async def answer(self, about: Topic, question: str) -> str:
        """Return what the model says. The topic stands before the question, which may say nothing of it."""
        return await self._reply(f"About {about}: {question}")

    async def agrees(self, proposed: ProposedCall) -> bool:
        """Return whether the reply begins with yes."""
        return _YES.match(await self._reply(f"May I make this change: {_call(proposed)}? Please begin with yes or no.")) is not None

    async def hears(self, message: str, requests_done: int) -> str:
        return await self._reply(message)

    async def _reply(self, text: str) -> str:
        async with self._turn:
            self._messages.append(Message("user", text))
            try:
                reply = await self._model.complete(Request(tuple(self._messages), role=Role.ANSWER))
            except BaseException:
                self._messages.pop()  # nothing was said to it
                raise
            self._messages.append(Message("assistant", reply.text))
            return reply.text


PATIENCE_S = 3600.0
"""Seconds for which a tool waits for a user whom a model plays: requests to a model have time limits of their own."""


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """An environment with a user."""

    inner: Environment
    script: ScriptedUser
    talk: Toolset[User]
    tools: tuple[Tool, ...]

    def played_by(self, model: Model) -> UserEnvironment:
        talk = tuple(replace(tool, time_limit_s=PATIENCE_S) for tool in self.talk.bound_to(ModelledUser(self.script, model)))
        return replace(self, tools=(*talk, *self.inner.tools))

    def state(self) -> Any:
        return self.inner.state()

    def close(self) -> None:
        self.inner.close()


def with_user(inner: Environment, script: ScriptedUser, talk: Toolset[User] = USER_TOOLS) -> UserEnvironment:
    """Add a user to an environment. `talk`: the tools to talk with them, as `user_tools` makes them.

    Raises ValueError if an agent could not hear all of the script: it has a topic that `ask_user` does not have, or further
    requests while there is no `tell_user`.
    """
    user = ScriptedTalk(script)
    _check_heard(script, talk.bound_to(user))
    own = (tool if tool.read_only else replace(tool, function=_noticed(tool, user)) for tool in inner.tools)
    return UserEnvironment(inner, script, talk, (*talk.bound_to(user), *own))


def _check_heard(script: ScriptedUser, tools: tuple[Tool, ...]) -> None:
    by_name = {tool.name: tool for tool in tools}
    if script.further and tell_user.__name__ not in by_name:
        raise ValueError("the script has further requests, which an agent hears through tell_user: make the tools with asks=True")
    if (ask := by_name.get("ask_user")) is None:
        return  # tools that are not those of `user_tools`
    about = ask.parameters["properties"]["about"]
    topics = about.get("enum") or [about["const"]]
    for topic in script.says:
        if topic not in topics:
            raise ValueError(
                f"the script says something about {topic}, which ask_user does not have: its topics are {', '.join(topics)}"
            )


def _noticed(tool: Tool, user: ScriptedTalk) -> Callable[..., Any]:
    """Return the function of a tool that changes something, which also lets the user know of the call once it has succeeded."""
    function = tool.function

    async def later(*args: Any, **arguments: Any) -> Any:
        value = await function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    def at_once(*args: Any, **arguments: Any) -> Any:
        value = function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    return later if tool.is_async else at_once
