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

Topic = Literal["identity", "wishes"]
NOTHING_TO_SAY = "I have nothing to say about that."


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call of a tool that changes something, as an agent proposes it to the user."""

    action: str
    """The tool."""
    arguments: Mapping[str, Any]

    def is_same_as(self, other: ProposedCall) -> bool:
        """Return whether both do the same: lists of equal length are pairs, whose order does not matter."""
        if self.action != other.action or self.arguments.keys() != other.arguments.keys():
            return False
        single = [name for name, value in self.arguments.items() if not isinstance(value, list)]
        if any(self.arguments[name] != other.arguments[name] for name in single):
            return False
        return self._rows(single) == other._rows(single)

    def _rows(self, single: Sequence[str]) -> list[str]:
        """The lists side by side, a text for each row, sorted; or each list as it is where their lengths differ."""
        lists = {name: value for name, value in sorted(self.arguments.items()) if name not in single}
        if not all(isinstance(value, list) for value in lists.values()):
            return [repr(lists)]
        if len({len(value) for value in lists.values()}) > 1:
            return [repr(lists)]
        return sorted(repr(row) for row in zip(*lists.values(), strict=True))


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
        return any(proposed.is_same_as(wanted) for wanted in self.agrees_to)


def ask_user(user: ScriptedUser, about: Topic, question: str) -> str:
    """Ask the user a question, and wait for the answer.

    Args:
        about: What the question is about: who the user is, or what they want.
        question: The question, as the user reads it.

    Returns:
        What the user says.
    """
    return user.answer(about)


def confirm_with_user(user: ScriptedUser, action: str, arguments: dict[str, Any]) -> bool:
    """Tell the user of a change before it is made, and ask for a yes or no.

    Args:
        action: The name of the tool that makes the change.
        arguments: The arguments with which it will be called.

    Returns:
        Whether the user agrees.
    """
    return user.agrees(ProposedCall(action, arguments))


USER_TOOLS: Toolset[ScriptedUser] = Toolset(ask_user, confirm_with_user, writes=())
"""The tools through which an agent talks with the user of its task."""
