"""A user who talks with an agent by a script: what they know, what they want, what they agree to, and what else they ask, and when.

A user whom a model plays may forget the request, grant what it should refuse, or solve the task itself, and an agent is then scored
for that. This one says the same in every trial, so that what an agent loses is its own: it answers by topic, word for word, agrees
to a change if it is one of those in the script, and raises its further requests one at a time, in the script's order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .worlds import Toolset

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
        if self.action != proposed.action or self.arguments.keys() != proposed.arguments.keys():
            return False
        alone = (name for name in self.arguments if name not in self.side_by_side)
        if any(self.arguments[name] != proposed.arguments[name] for name in alone):
            return False
        return self._rows(self.arguments) == self._rows(proposed.arguments)

    def _rows(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the lists side by side, a sorted text for each row; values that are not lists of equal length are one text."""
        lists = [arguments[name] for name in self.side_by_side]
        if not all(isinstance(one, list) for one in lists) or len({len(one) for one in lists}) > 1:
            return [repr(lists)]
        return sorted(repr(row) for row in zip(*lists, strict=True))


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

    def answer(self, about: Topic, question: str = "") -> str:
        """Return what the user says about a topic, whatever the question is."""
        return self.says.get(about) or NOTHING_TO_SAY

    def agrees(self, proposed: ProposedCall) -> bool:
        """Return whether the user wants this change."""
        return any(wanted.allows(proposed) for wanted in self.agrees_to)


class User(Protocol):
    """Whoever talks with the agent in one trial: by a script, or played by a model."""

    def answer(self, about: Topic, question: str) -> str | Awaitable[str]:
        """Return what the user says to a question about a topic."""

    def agrees(self, proposed: ProposedCall) -> bool | Awaitable[bool]:
        """Return whether the user wants this change."""

    def hears(self, message: str, requests_done: int) -> str | Awaitable[str]:
        """Return what the user says when they are told what was done. `requests_done`: of their requests, as the agent counts."""


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
        return self.script.answer(about)

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
