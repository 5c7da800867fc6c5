"""Which agent a text or an object names."""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from whichloop.protocol import Loop
from whichloop.protocol.names import Spec, nearest, parse_spec, program_spec
from whichloop.runs.built_in import loop_names
from whichloop.runs.registry import make_loop

TOLD_STEPS = 9
"""Tool steps that an agent is told to take at most, where it can be told; with the answer that makes ten requests."""


def agent_spec(words: Sequence[str]) -> Spec:
    """Return what words name: a design or a framework with its options, a function, or a command line. Raises ValueError."""
    first = words[0]
    if first.partition("(")[0] in loop_names():
        if len(words) > 1:
            raise ValueError(f"name one agent, with its options in brackets; got {shlex.join(words)}")
        return parse_spec(first)
    if len(words) > 1:
        return Spec("program", {"command": shlex.join(words)})
    if Path(first).is_file() and not os.access(first, os.X_OK):
        raise ValueError(f"{first} cannot be executed; write -- python {first} for a command, or {first}:FUNCTION for a function")
    if first.isidentifier() and shutil.which(first) is None:
        raise ValueError(f"there is no program, framework or design {first!r}; {nearest(first, loop_names())}")
    return parse_spec(program_spec(first))


def agent_name(spec: Spec) -> str:
    """Return the name of an agent in reports: the command of a program, else the spec."""
    return str(spec.options["command"]) if spec.name == "program" else str(spec)


def agent_of(agent: str | type[Loop] | Loop | Callable[..., object]) -> tuple[Loop, str]:
    """Return an agent and its name. `agent`: words as `agent_spec` takes them, a loop, its class, or a function.

    A function runs in a process of its own, one that `whichloop.tunnel.loop` has marked in this one. Raises ValueError for a bad
    name or option.
    """
    if isinstance(agent, str):
        spec = agent_spec([agent])
        return make_loop(spec, TOLD_STEPS), agent_name(spec)
    if isinstance(agent, type):
        loop: Loop = agent()
        return loop.with_step_limit(TOLD_STEPS), agent.__name__
    if isinstance(agent, Loop):
        return agent.with_step_limit(TOLD_STEPS), agent.name
    if inspect.isfunction(agent):
        return agent_of(_place_of(agent))[0], agent.__name__
    raise ValueError(f"{agent!r} is no agent: give a name, a loop, its class, or a function")


def _place_of(function: Callable[..., object]) -> str:
    """Return where a function can be imported from. Raises ValueError for one within another, and for a lambda."""
    if not function.__qualname__.isidentifier():
        raise ValueError(
            f"{function.__qualname__} cannot be imported: define it at the top of a module, or mark it with tunnel.loop"
        )
    file = inspect.getsourcefile(function)
    return f"{function.__module__ if '.' in function.__module__ else file}:{function.__name__}"
