"""A law, and what its check finds: facts in one form, for loops, suites and programs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.datasets.validity.checks import Problem
from whichloop.protocol.own_code import raised_at
from whichloop.protocol.values import cap, error_text, one_line

Status = Literal["ok", "warning", "failed", "not run"]
Progress = Callable[[str, int, int], None]
"""A callback with what is being done, the number of things done, and their total."""
MAX_CHARS = 400


def unwatched(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the check of one law found."""

    law: str
    status: Status
    detail: str = ""
    """In one line: the first counterexample, or why the law was not run; empty if it holds."""
    others: tuple[str, ...] = ()
    """Further problems, a line each."""
    count: int = 1
    """Number of all problems."""
    ends: bool = field(default=False, compare=False, repr=False)
    """Whether the thing cannot be run, blocks or hangs, so that other laws would find the same again."""

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems that are kept."""
        return (self.detail, *self.others) if self.detail else ()

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.law, "status": self.status, "detail": self.detail} | ({"others": self.others} if self.others else {})


@dataclass(frozen=True, slots=True)
class Law:
    """A law with its check."""

    name: str
    text: str
    """The law in a sentence."""
    run: Callable[[Any], Awaitable[Iterable[Problem] | None] | Iterable[Problem]]
    """The check. It returns problems, or raises Broken or NotApplicable."""
    calls_tools: bool = False
    """Whether it calls tools, which may act on the real world."""


def law(name: str, text: str) -> Callable[[Callable[[Any], Awaitable[None]]], Law]:
    """Return a decorator that makes a law of its check."""
    return lambda run: Law(name, text, run)


class Broken(Exception):
    """A law does not hold; the message is the counterexample. `ends`: as in a Finding."""

    def __init__(self, counterexample: str, *, ends: bool = False) -> None:
        super().__init__(counterexample)
        self.ends = ends


class NotApplicable(Exception):
    """A law does not apply, or could not be looked at; the message says why."""


def require(holds: bool, counterexample: str) -> None:
    if not holds:
        raise Broken(counterexample)


def error_summary(error: BaseException) -> str:
    """Return an exception in words, with the line of the user's code that it came from."""
    at = raised_at(error)
    return f"{cap(f'{type(error).__name__}: {error_text(error)}', 300)}{f' at {at}' if at else ''}"


async def judged(law: Law, thing: Any, what: str) -> Finding:
    """Return what the check of a law finds. `what`: the kind of the thing, whose own code may raise anything."""
    try:
        found = law.run(thing)
        problems = (await found or ()) if inspect.isawaitable(found) else found
        ordered = sorted(problems, key=lambda problem: not problem.fails)
    except NotApplicable as reason:
        return Finding(law.name, "not run", str(reason))
    except Broken as broken:
        return Finding(law.name, "failed", str(broken), ends=broken.ends)
    except Exception as error:
        return Finding(law.name, "failed", f"the {what} raised {error_summary(error)}", ends=what == "loop")
    if not ordered:
        return Finding(law.name, "ok")
    first, *others = (cap(one_line(problem.text), MAX_CHARS) for problem in ordered[:20])
    return Finding(law.name, "failed" if ordered[0].fails else "warning", first, tuple(others), len(ordered))
