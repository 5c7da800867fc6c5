"""Tools over a trial's own state: described once, bound anew for each trial.

A tool of a world is a function whose first argument is the world; a loop sees the others. Building a tool's schema takes a
millisecond, binding it to a new world a few microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from whichloop.protocol import Tool

World = TypeVar("World")


class UnknownName(LookupError):
    """The world has nothing of this name."""


class InvalidRequest(ValueError):
    """An argument of a tool is out of range."""


class Toolset(Generic[World]):
    """The tools that every trial of a suite has, as functions of (world, arguments …)."""

    def __init__(self, *functions: Callable[..., Any], writes: Collection[Callable[..., Any]] | None = None) -> None:
        """Name, description and schema come from each function's name, docstring and argument types.

        The functions run in place: none may block. `writes`: those that change what counts of the world, the others being
        read-only; None: any may. Raises TypeError for an argument without a JSON schema.
        """
        self._templates = tuple(
            Tool.from_function(
                functools.partial(function, None),
                name=function.__name__,
                blocking=False,
                read_only=writes is not None and function not in writes,
            )
            for function in functions
        )
        self._functions = functions

    def bound_to(self, world: World) -> tuple[Tool, ...]:
        """Return the tools, acting on this world."""
        return tuple(
            replace(tool, function=functools.partial(function, world))
            for tool, function in zip(self._templates, self._functions, strict=True)
        )


def _no_state(world: object) -> None:
    return None


def _nothing(world: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class WorldEnvironment(Generic[World]):
    """An environment of tools over one world that no other trial sees."""

    tools: tuple[Tool, ...]
    world: World
    read_state: Callable[[World], Any] = field(default=_no_state)
    """Reads the world's state as JSON, for scoring."""
    end: Callable[[World], None] = field(default=_nothing)
    """Gives back what the world holds."""

    def state(self) -> Any:
        return self.read_state(self.world)

    def close(self) -> None:
        self.end(self.world)
