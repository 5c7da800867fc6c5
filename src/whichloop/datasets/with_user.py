"""The environment of a task that has a user: the tools to talk with them stand beside the environment's own.

A user whom a model plays may forget the request, grant what it should refuse, or solve the task itself, and an agent is then scored
for that. The scripted one says the same in every trial, so that what an agent loses is its own: it answers by topic, word for word,
agrees to a change if it is one of those in the script, and raises its further requests one at a time, in the script's order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from whichloop.protocol import Message, Model, Request, Role, Tool
from whichloop.protocol.json_text import canonical_json

from .task import Environment, Toolset

Topic = str
"""What a question may be about."""
TOPICS: Mapping[Topic, str] = {"identity": "who the user is", "wishes": "what they want"}
"""The topics of tau2's customers, and what each is."""
NOTHING_TO_SAY = "I have nothing to say about that."
NOTHING_MORE = "Thank you, that is all."
STILL_WAITING = "I am still waiting for what I asked for."


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call of a tool that changes something, as an agent proposes it to the user."""

    action: str
    """The tool."""
    arguments: Mapping[str, Any]
    side_by_side: Sequence[str] = ()
    """Arguments that are lists of equal length, whose items belong together; the order of these rows does not matter."""

    def allows(self, proposed: ProposedCall) -> bool:
        """Return whether the proposed call does the same as this one, which is in the script."""
        return self.action == proposed.action and self._compared(self.arguments) == self._compared(proposed.arguments)

    def _compared(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments that stand alone, and a sorted text for each row of the lists side by side, if they are such."""
        lists: list[Any] = [arguments.get(name) for name in self.side_by_side]
        are_rows = all(isinstance(one, list) for one in lists) and len({len(one) for one in lists}) < 2
        alone = {name: value for name, value in arguments.items() if name not in self.side_by_side}
        return alone, sorted(map(repr, zip(*lists, strict=True))) if are_rows else [repr(lists)]


@dataclass(frozen=True, slots=True)
class FurtherRequest:
    """What a user asks of their own accord, once they are told that what they asked before is dealt with."""

    says: str
    """The request, in the user's words."""
    after: Sequence[ProposedCall] = ()
    """Changes that the user waits for: until they are made, the user does not ask. Empty: the agent's word is enough."""


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """The script of one user. Raises ValueError if the user waits for a change that they would not agree to."""

    says: Mapping[Topic, str]
    """Topic → what the user says about it."""
    agrees_to: Sequence[ProposedCall] = ()
    """The changes that the user wants."""
    further: Sequence[FurtherRequest] = ()
    """What the user asks later, in this order."""

    def __post_init__(self) -> None:
        for number, request in enumerate(self.further, start=1):
            for change in request.after:
                if not self.agrees(change):
                    raise ValueError(f"further request {number} waits for {change.action}, which the user does not agree to")

    def agrees(self, proposed: ProposedCall) -> bool:
        """Return whether the user wants this change."""
        return any(wanted.allows(proposed) for wanted in self.agrees_to)


class ScriptedTalk:
    """A scripted user in one trial: what was done for them so far, and what they have asked.

    They say nothing but the sentences of the script and of this module. What they say depends on what is asked, on the changes that
    were made, and on the requests that they have raised, never on how an agent words things.
    """

    def __init__(self, script: ScriptedUser) -> None:
        self.script = script
        self._changes_made: list[ProposedCall] = []
        self._raised = 0

    def answer(self, about: Topic, question: str) -> str:
        """Return what the user says about a topic, whatever the question is."""
        return self.script.says.get(about) or NOTHING_TO_SAY

    def agrees(self, proposed: ProposedCall) -> bool:
        return self.script.agrees(proposed)

    def notices(self, change: ProposedCall) -> None:
        """Take note of a change that was made."""
        self._changes_made.append(change)

    def hears(self, message: str, requests_done: int) -> str:
        """Return the next request if its time has come.

        Who says again that as many requests are done is answered as before, so that a reply that was lost can be had again; who
        claims more than the user has asked hears the next request all the same.
        """
        further = self.script.further
        place = min(max(requests_done, 1) - 1, self._raised)
        if place == len(further):
            return NOTHING_MORE
        if not all(any(awaited.allows(change) for change in self._changes_made) for awaited in further[place].after):
            return STILL_WAITING
        self._raised = max(self._raised, place + 1)
        return further[place].says


_YES = re.compile(r"\W*yes\b", re.IGNORECASE)


def instructions(script: ScriptedUser) -> str:
    """Return the script as instructions to the model that plays the user."""
    parts = [
        "You play a user who talks with an agent. Speak as this user, in the first person, and briefly. Say nothing of yourself or "
        f"of your wishes that is not written below; if you are asked for anything else, say: {NOTHING_TO_SAY}",
        *(f"What you say when you are asked about {topic}:\n{text or NOTHING_TO_SAY}" for topic, text in script.says.items()),
    ]
    changes = "".join(f"\n- {_call(change)}" for change in script.agrees_to)
    said = f"yes to these changes, and no to all others:{changes}" if changes else "no to all changes."
    parts.append(f"The agent asks you before it changes anything. Say {said}")
    for number, request in enumerate(script.further, start=1):
        changes = " and ".join(f"it has made the change {_call(change)}" for change in request.after)
        until = f"of which you say nothing until the agent has told you that {changes or 'what you asked before is dealt with'}"
        parts.append(f"Your further request {number}, {until}:\n{request.says}")
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


User = ScriptedTalk | ModelledUser
"""Whoever talks with the agent in one trial: by a script, or played by a model."""


def confirm_with_user(user: User, action: str, arguments: Mapping[str, object]) -> Any:
    """Tell the user of a change before it is made, and ask for a yes or no.

    Args:
        action: The name of the tool that makes the change.
        arguments: The arguments with which it will be called.

    Returns:
        Whether the user agrees.
    """
    return user.agrees(ProposedCall(action, arguments))


def tell_user(user: User, message: str, requests_done: int) -> Any:
    """Tell the user that a request of theirs is dealt with, and hear whether they want anything else.

    Args:
        message: What was done, as the user reads it.
        requests_done: How many of the user's requests are dealt with so far, 1 after the first.

    Returns:
        What the user says: a further request, or that there is none.
    """
    return user.hears(message, requests_done)


def user_tools(topics: Mapping[Topic, str] = TOPICS, *, asks: bool = False) -> Toolset[User]:
    """Make `ask_user` and `confirm_with_user`, through which an agent talks with the user of its task.

    `topics`: what `ask_user` may be about → what that is, in words for the model. `asks`: whether users have further requests;
    then there is `tell_user`, too. Raises ValueError where there is no topic.
    """
    if not topics:
        raise ValueError("topics is empty: a user who can be asked needs at least one topic, as in {'wishes': 'what they want'}")

    def ask_user(user: User, about: str, question: str) -> Any:
        return user.answer(about, question)

    ask_user.__annotations__["about"] = Literal[tuple(topics)]
    ask_user.__doc__ = f"""Ask the user a question, and wait for the answer.

    Args:
        about: What the question is about: {"; ".join(f"{name}, {meaning}" for name, meaning in topics.items())}.
        question: The question, as the user reads it.

    Returns:
        What the user says.
    """
    return Toolset(ask_user, confirm_with_user, *([tell_user] if asks else []), writes=())


USER_TOOLS = user_tools()
"""The tools of a user who is asked about TOPICS."""
ASKING_USER_TOOLS = user_tools(asks=True)
"""The same for users who have further requests."""


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
    if script.further and all(tool.name != "tell_user" for tool in tools):
        raise ValueError("the script has further requests, which an agent hears through tell_user: make the tools with asks=True")
    about = next((tool.parameters["properties"]["about"] for tool in tools if tool.name == "ask_user"), None)
    topics = script.says if about is None else about.get("enum") or [about["const"]]  # None: tools that are not ours
    if unheard := [topic for topic in script.says if topic not in topics]:
        said = f"the script says something about {unheard[0]}, which ask_user does not have"
        raise ValueError(f"{said}: its topics are {', '.join(topics)}")


def _noticed(tool: Tool, user: ScriptedTalk) -> Callable[..., Any]:
    """Return the function of a tool that changes something, which also lets the user know of the call once it has succeeded."""

    async def later(*args: Any, **arguments: Any) -> Any:
        value = await tool.function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    def at_once(*args: Any, **arguments: Any) -> Any:
        value = tool.function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    return later if tool.is_async else at_once
