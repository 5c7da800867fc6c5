"""A user whom a model plays: it is told the script as instructions, and says what it makes of them."""

from __future__ import annotations

import asyncio
import re

from whichloop.protocol import Message, Model, Request, Role
from whichloop.protocol.digest import canonical_json

from .scripted_user import NOTHING_MORE, NOTHING_TO_SAY, ProposedCall, ScriptedUser, Topic

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
