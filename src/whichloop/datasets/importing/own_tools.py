"""Tools of the user's own: what a module offers, and the environment that each trial gets of them.

A module offers its `TOOLS`, or what is named in it: a list of functions (or of `whichloop.Tool`s), a single function, or a function
of the task that gives the trial's own environment (`tools`, `state()`, `close()`), or just a list of functions over state of its
own. A module without `TOOLS` offers its public functions that have type hints.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from whichloop.datasets.task import Environment, StatelessEnvironment, Task, WorldEnvironment, as_described
from whichloop.protocol import Tool, render_value
from whichloop.protocol.json_text import canonical_json, whole_numbers_as_int
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import error_text

logger = logger_of(__name__)

ALLOWED = "$tools"
"""Key of `Task.world`: the names of the only tools that the task's environment has; without it, all."""


@dataclass(frozen=True, slots=True)
class OwnTools:
    """What the user named with `--tools`; all trials share `fixed` tools, `opener` gives each trial its own."""

    name: str = ""
    """The name as typed; empty if there are no tools."""
    fixed: tuple[Tool, ...] = ()
    opener: Callable[[Task], Any] | None = None

    def open(self, task: Task) -> Environment:
        """Open the task's environment in its fresh state.

        Raises ValueError where the user's code fails, gives no environment, or lacks a tool that the task names.
        """
        environment = StatelessEnvironment(self.fixed) if self.opener is None else self._opened(self.opener, task)
        names = task.world.get(ALLOWED)
        if names is None:
            return environment
        by_name = {tool.name: tool for tool in environment.tools}
        if unknown := [name for name in names if name not in by_name]:
            environment.close()
            raise ValueError(self.lacks(unknown[0], by_name))
        return _with_tools(tuple(by_name[name] for name in names), environment)

    def lacks(self, name: str, names: Iterable[str]) -> str:
        """Say that there is no tool of this name."""
        if not self.name:
            return f"no tool {name!r}: name the module that has it with --tools"
        return f"no tool {name!r}; {self.name} has {', '.join(names) or 'none'}"

    def _opened(self, opener: Callable[[Task], Any], task: Task) -> Environment:
        try:
            opened = opener(task)
            environment = _with_tools(_tools(opened.tools), opened) if isinstance(opened, Environment) else None
            tools = _tools(opened) if environment is None else environment.tools
        except Exception as error:  # the boundary to the user's own code
            raise ValueError(f"tools {self.name!r}: task {task.id!r}: {type(error).__name__}: {error_text(error)}") from error
        tell_gaps(as_described(tools))
        return environment or StatelessEnvironment(tools)


NO_TOOLS = OwnTools()


def _with_tools(tools: tuple[Tool, ...], inner: Environment) -> WorldEnvironment[Environment]:
    """Return an environment with these tools: some of its own, or its functions as tools."""
    return WorldEnvironment(tools, inner, lambda world: world.state(), lambda world: world.close())


def offered(name: str, module: ModuleType, attribute: str = "") -> OwnTools:
    """Return the tools that a module offers, under `attribute` where one is named; `name`: as typed.

    Raises ValueError where there are none, two share a name, or an argument's type has no JSON schema.
    """
    functions: Any = getattr(module, attribute) if attribute else getattr(module, "TOOLS", None)
    if functions is None:
        functions = [
            item
            for name, item in vars(module).items()
            if not name.startswith("_")
            and (inspect.isfunction(item) or hasattr(item, "__wrapped__"))
            and item.__module__ == module.__name__
            and getattr(item, "__annotations__", None)
            and not _takes_a_task(item)
        ]
        if not functions:
            file = getattr(module, "__file__", None) or module
            nothing = "has neither TOOLS nor a public function of its own with type hints"
            raise ValueError(f"tools {name!r}: {file} {nothing}; a function of the task is named: {name}:FUNCTION")
    try:
        tools = own_tools(name, functions)
    except TypeError as error:
        raise ValueError(f"tools {name!r}: {error}") from None
    tell_gaps(as_described(tools.fixed))
    return tools


def own_tools(name: str, functions: Any) -> OwnTools:
    """Take functions, one function, or a function of the task; `name`: for messages. Raises TypeError for anything else."""
    if _takes_a_task(functions):
        return OwnTools(name, opener=functions)
    return OwnTools(name, _tools((functions,) if isinstance(functions, Tool) or callable(functions) else functions))


def tell_gaps(described: Iterable[Sequence[Any]]) -> None:
    """Warn of what a model is not told of tools: what they are for, and the types of their arguments; once however often they are
    looked at. `described`: as by `described_tools`."""
    gaps = []
    for tool, description, parameters in described:
        gaps += [] if description.strip() else [f"{tool} has no docstring"]
        for name, rules in parameters.get("properties", {}).items():
            if isinstance(rules, Mapping) and not rules.keys() - {"title", "default", "description"}:
                gaps.append(f"argument {name} of {tool} has no type")
    _tell_gaps(tuple(gaps))


@lru_cache(maxsize=256)  # a trial opens its environment anew, and one warning is enough
def _tell_gaps(gaps: tuple[str, ...]) -> None:
    if gaps:
        logger.warning("a model knows of tools only what they say of themselves: %s", "; ".join(gaps))


def _takes_a_task(item: Any) -> bool:
    """Return whether it is a function, or a class, of one argument that is declared as a Task."""
    if isinstance(item, Tool) or not callable(item):
        return False
    try:
        signature = inspect.signature(item)
        with contextlib.suppress(NameError, TypeError, AttributeError):  # it names what only a type checker sees
            signature = inspect.signature(item, eval_str=True)
    except (TypeError, ValueError):  # a builtin without signature
        return False
    parameters = signature.parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) != 1:
        return False
    kind = needed[0].annotation
    return kind is Task or kind in ("Task", "whichloop.Task") or (kind is inspect.Parameter.empty and needed[0].name == "task")


def _tools(items: Any) -> tuple[Tool, ...]:
    """Return functions as tools. Raises TypeError for anything else, and for two of one name."""
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | Mapping):
        raise TypeError(f"neither a list of functions nor an environment (tools, state, close), but {type(items).__name__}")
    tools = tuple(item if isinstance(item, Tool) else Tool.from_function(item) for item in items)
    names = [tool.name for tool in tools]
    if len(set(names)) != len(names):
        raise TypeError(f"two tools are named {next(name for name in names if names.count(name) > 1)!r}")
    return tools


RECORDED = "recorded"
"""Key of `Task.world`: the calls that were recorded, each with `tool`, `arguments`, `result` and `failed`."""
_TYPES: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class NotRecorded(LookupError):
    """A call that no recorded trial made."""


def recorded_tools(task: Task) -> StatelessEnvironment:
    """Return the environment of one trial: a call gives the same result whenever it is made."""
    calls: Sequence[Mapping[str, Any]] = task.world.get(RECORDED, ())
    tools = []
    for name in dict.fromkeys(call["tool"] for call in calls):
        own = [call for call in calls if call["tool"] == name]
        text = f"{name}, with the results of recorded calls."
        tools.append(Tool(name, text, _schema(own), _replaying(name, own), blocking=False))
    return StatelessEnvironment(tools)


def _schema(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a JSON schema of the arguments that were recorded; what every call has is required."""
    every = [call["arguments"] for call in calls]
    names = dict.fromkeys(name for arguments in every for name in arguments)
    properties: dict[str, Any] = {}
    for name in names:
        types = sorted({_TYPES.get(type(given[name]), "null") for given in every if name in given})
        properties[name] = {"type": types[0] if len(types) == 1 else types}
    required = [name for name in names if all(name in arguments for arguments in every)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _replaying(name: str, calls: Iterable[Mapping[str, Any]]) -> Callable[..., str]:
    def key(arguments: Any) -> str:
        return canonical_json(whole_numbers_as_int(arguments))

    results = {key(call["arguments"]): call for call in calls}

    def replay(**arguments):  # type: ignore[no-untyped-def]  # a type would promise what a recorded text is
        recorded = results.get(key(arguments))
        if recorded is None:
            call_arguments = ", ".join(f"{key}={render_value(value)}" for key, value in arguments.items())
            raise NotRecorded(f"no result was recorded for {name}({call_arguments})")
        if recorded.get("failed"):
            raise RuntimeError(str(recorded["result"]))
        return recorded["result"]

    return replay
