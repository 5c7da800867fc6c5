"""A user who answers an agent by a script: what they know, what they want, and what they agree to.

A user whom a model plays may forget the request, grant what it should refuse, or solve the task itself, and an agent is then scored
for that. This one says the same in every trial, so that what an agent loses is its own: it answers by topic, word for word, and
agrees to a change if it is one of those in the script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .worlds import Toolset

Topic = str
"""What a question may be about."""
TOPICS: Mapping[Topic, str] = {"identity": "who the user is", "wishes": "what they want"}
"""The topics of tau2's customers, and what each is."""
NOTHING_TO_SAY = "I have nothing to say about that."


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
        """The lists side by side, a text for each row, sorted; as they are where they are no lists of equal length."""
        lists = [arguments[name] for name in self.side_by_side]
        if not all(isinstance(one, list) for one in lists) or len({len(one) for one in lists}) > 1:
            return [repr(lists)]
        return sorted(repr(row) for row in zip(*lists, strict=True))


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """What one user says."""

    says: Mapping[Topic, str]
    """Topic → what the user says about it."""
    agrees_to: Sequence[ProposedCall] = ()
    """The changes that the user wants."""

    def answer(self, about: Topic) -> str:
        """Return what the user says about a topic."""
        return self.says.get(about) or NOTHING_TO_SAY

    def agrees(self, proposed: ProposedCall) -> bool:
        """Return whether the user wants this change."""
        return any(wanted.allows(proposed) for wanted in self.agrees_to)


def confirm_with_user(user: ScriptedUser, action: str, arguments: dict[str, Any]) -> bool:
    """Tell the user of a change before it is made, and ask for a yes or no.

    Args:
        action: The name of the tool that makes the change.
        arguments: The arguments with which it will be called.

    Returns:
        Whether the user agrees.
    """
    return user.agrees(ProposedCall(action, arguments))


def user_tools(topics: Mapping[Topic, str] = TOPICS) -> Toolset[ScriptedUser]:
    """Make `ask_user` and `confirm_with_user`, through which an agent talks with the user of its task.

    `topics`: what `ask_user` may be about → what that is, in words for the model. Raises ValueError where there is none.
    """
    if not topics:
        raise ValueError("topics: a user who has nothing to say cannot be asked")

    def ask_user(user: ScriptedUser, about: str, question: str) -> str:
        return user.answer(about)

    ask_user.__annotations__["about"] = Literal[tuple(topics)]
    ask_user.__doc__ = f"""Ask the user a question, and wait for the answer.

    Args:
        about: What the question is about: {"; ".join(f"{name}, {meaning}" for name, meaning in topics.items())}.
        question: The question, as the user reads it.

    Returns:
        What the user says.
    """
    return Toolset(ask_user, confirm_with_user, writes=())


USER_TOOLS = user_tools()
"""The tools of a user who is asked about TOPICS."""
