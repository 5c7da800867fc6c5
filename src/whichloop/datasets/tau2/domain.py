"""What the importer asks of a domain: its data, its tools, and what tasks may call to set it up or to judge it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..worlds import Toolset

Side = Literal["assistant", "user"]
Database = dict[str, Any]
"""The state of a domain, plain JSON."""


class NotFound(ValueError):
    """An id that the database does not have."""


class RefusedCall(ValueError):
    """A call that the state of the domain does not allow."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of tau2-bench: what its tasks are made of."""

    name: str
    tools: Toolset[Database]
    """The agent's; in a domain whose user has tools they are the agent's too, tau2's solo mode."""
    sides: Mapping[str, Side]
    """Tool → whose it is in a conversation."""
    reads: Collection[str]
    """Tools that change nothing."""
    setup: Mapping[Side, Mapping[str, Callable[..., Any]]]
    """What a task may call before it begins, beside the tools."""
    assertions: Mapping[Side, Mapping[str, Callable[..., bool]]]
    """What may be asserted of the end state; each may raise NotFound."""
    load: Callable[[Path], Database]
    """Reads the data of a folder. Raises ValueError and OSError."""
    policy: Callable[[Path], str]
    """Reads the policy for an agent that works alone. Raises ValueError and OSError."""
    merge: Callable[[Database, Mapping[str, Any], Mapping[str, Any]], Database]
    """Merges the agent's and the user's initial data into a copy of the database. Raises ValueError."""
    settle: Callable[[Database], None]
    """Brings the two sides into agreement after each call."""

    @property
    def has_user_tools(self) -> bool:
        return "user" in self.sides.values()


def merged(old: Any, new: Any) -> Any:
    """Merge objects at any depth; of everything else, return the new value."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
