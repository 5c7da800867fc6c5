"""Which agent a text or an object names."""

from __future__ import annotations

import contextlib
import inspect
import shlex
import shutil
from collections.abc import Callable, Sequence

from whichloop.programs.program import PRESETS, Service
from whichloop.protocol import Loop
from whichloop.protocol.names import Spec, nearest, own_object, parse_spec, program_spec
from whichloop.runs.built_in import loop_names
from whichloop.runs.registry import make_loop

TOLD_STEPS = 9
"""Tool steps that an agent is told to take at most, where it can be told; with the answer that makes ten requests."""
ADDRESS = ("http://", "https://")
"""How an agent begins that runs as a service."""


def is_loop(thing: object) -> bool:
    """Return whether an object is a loop, or a class of loops."""
    return callable(getattr(thing, "run", None))


def is_command(word: str) -> bool:
    """Return whether one word names what can be executed."""
    return word.partition("(")[0] in PRESETS or shutil.which(word) is not None


def agent_name(spec: Spec) -> str:
    """Return the name of an agent in reports: the command of a program, else the spec."""
    return str(spec.options["command"]) if spec.name == "program" else str(spec)


def named_agent(words: Sequence[str], venv: str | None = None, keys: Sequence[str] = ()) -> tuple[Loop, str]:
    """Return the agent that words name, with its name. `venv`, `keys`: as a program's options. Raises ValueError."""
    more = {name: value for name, value in (("venv", venv), ("keys", tuple(keys))) if value}
    if words[0].startswith(ADDRESS) and len(words) == 1 and not more:
        return Service(words[0]), words[0]
    spec = _agent_spec(words, has_own_python=bool(venv))
    if more and spec.name != "program":
        raise ValueError(f"--venv and --key are for programs, not for {spec}")
    return make_loop(Spec(spec.name, {**spec.options, **more}, spec.program), TOLD_STEPS), agent_name(spec)


def _agent_spec(words: Sequence[str], *, has_own_python: bool) -> Spec:
    """Return a design or a framework with its options, a loop or a function of the user's own, or a command line."""
    first = words[0]
    if first.partition("(")[0] in loop_names():
        if len(words) > 1:
            raise ValueError(f"name one agent, with its options in brackets; got {shlex.join(words)}")
        return parse_spec(first)
    if len(words) > 1:
        return Spec("program", {"command": shlex.join(words)})
    if first.isidentifier() and shutil.which(first) is None:
        raise ValueError(f"there is no program, framework or design {first!r}; {nearest(first, loop_names())}")
    if ":" in first and ".py:" not in first and not has_own_python:
        with contextlib.suppress(ValueError):  # what cannot be imported here may be so in the program's own Python
            if is_loop(own_object("agent", (spec := parse_spec(first)).name)):
                return spec
    return parse_spec(program_spec(first))


def agent_of(agent: str | type[Loop] | Loop | Callable[..., object]) -> tuple[Loop, str]:
    """Return an agent and its name. `agent`: one word as `named_agent` takes it, a loop, its class, or a function.

    A function runs in a process of its own, where it is imported. Raises ValueError for a bad name or option.
    """
    if isinstance(agent, str):
        return named_agent([agent])
    if isinstance(agent, type):
        loop: Loop = agent()
        return loop.with_step_limit(TOLD_STEPS), agent.__name__
    if isinstance(agent, Loop):
        return agent.with_step_limit(TOLD_STEPS), agent.name
    if not inspect.isfunction(agent):
        raise ValueError(f"{agent!r} is no agent: give a name, a loop, its class, or a function")
    if not agent.__qualname__.isidentifier():
        raise ValueError(f"{agent.__qualname__} cannot be imported: define it at the top of a module, or mark it with tunnel.loop")
    place = agent.__module__ if "." in agent.__module__ else inspect.getsourcefile(agent)
    return named_agent([f"{place}:{agent.__name__}"])[0], agent.__name__
