"""Find what a typed name means: `name`, `name(option=value)`, `package.module:Name`, or an entry point's name.

Code is imported only for names in a configuration or on the command line, never because a file of ours names it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from whichloop._extras import needed_by
from whichloop.datasets.generating import Source
from whichloop.datasets.importing.mcp_server import is_mcp, mcp_tools
from whichloop.datasets.importing.own_tools import OwnTools, offered
from whichloop.datasets.task import Suite
from whichloop.protocol import Loop, Optimizable, with_program
from whichloop.protocol.modules import plugins_of
from whichloop.protocol.names import Spec, nearest, own_module, own_object, parse_spec
from whichloop.protocol.own_code import own_words
from whichloop.protocol.values import joined

from .built_in import FOREIGN, PACKAGES, Option, builtin_names, is_foreign, options_of

_STARTED = ("command", "venv", "python")
"""Their options that say what that is."""


# --- options ---


def converted_options(target: Callable[..., Any], typed: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """Return options converted to their types. Raises ValueError that names the option and what would be right."""
    options_by_name = options_of(target)
    options: dict[str, Any] = {}
    for name, value in typed.items():
        if name not in options_by_name:
            raise ValueError(f"{whose}: unknown option {name!r}; {nearest(name, options_by_name)}")
        option = options_by_name[name]
        if value == "none" and type(None) in get_args(option.type):
            options[name] = None
            continue
        if takes_loop(option):
            options[name] = _inner_loop(value, f"{whose}: {name}")
            continue
        try:
            options[name] = TypeAdapter(option.type).validate_python(value)
        except ValidationError as error:
            raise ValueError(f"{whose}: {name}: {error.errors(include_url=False)[0]['msg']}, got {value!r}") from None
        except PydanticUserError:
            if type(value) in get_args(option.type):
                options[name] = value
                continue
            raise ValueError(f"{whose}: {name}: text cannot express a {option.type!r}") from None
    return options


def takes_loop(option: Option) -> bool:
    return option.type is Loop or Loop in get_args(option.type)


def _inner_loop(value: Any, whose: str) -> Loop:
    """Return a loop inside another, from its own `name(option=value)`. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f'{whose}: write a loop, name or "name(option=value)", got {value!r}')
    try:
        return make_loop(parse_spec(value))
    except ValueError as error:
        raise ValueError(f"{whose}: {error}") from None


# --- names ---


def generated_suites() -> dict[str, Source]:
    """Return the built-in suites that generate their tasks, by name."""
    sources = map(_source, builtin_names("suite"))
    return {source.name: source for source in sources if source is not None}


def is_generated(suite: str) -> bool:
    """Return whether a name is that of a built-in suite that generates its tasks; no other suite is loaded."""
    return suite in builtin_names("suite") and _source(suite) is not None


def _source(suite: str) -> Source | None:
    """Return what generates the tasks of a built-in suite; None if nothing does."""
    source = getattr(find("suite", suite), "__self__", None)
    return source if isinstance(source, Source) else None


def find(kind: str, name: str) -> Callable[..., Any]:
    """Return the loop's class or the suite's loader. Raises ValueError for an unknown name, with the nearest known ones."""
    if ":" in name:
        imported: Callable[..., Any] = own_object(kind, name)
        if not callable(imported):
            raise ValueError(f"{kind} {name!r} is not a class or function")
        return imported
    places = ("loop", *FOREIGN) if kind == "loop" else (kind,)
    for place in places:
        if name in builtin_names(place):
            package, attribute = PACKAGES[place]
            with needed_by(f"{kind} {name}"):
                if place == "framework":  # its wiring runs in an environment of its own
                    framework: Callable[..., Any] = import_module("whichloop.frameworks.table").FRAMEWORKS[name]
                    return framework
                offered: Callable[..., Any] = getattr(import_module(f"{package}.{name}"), attribute)
            return offered
    plugins = {point.name: point for point in plugins_of(f"whichloop.{kind}s")}
    if name in plugins:
        loaded: Callable[..., Any] = plugins[name].load()
        return loaded
    candidates = [name for place in places for name in builtin_names(place)] + sorted(plugins)
    raise ValueError(f"unknown {kind} {name!r}; {nearest(name, candidates)}, or package.module:Name")


_PARTS = ("name", "stops", "run", "with_step_limit")
_AS_PROGRAM = "a function that solves a task is given as --program {}, or decorated with @whichloop.tunnel.loop"


def make_loop(spec: Spec, tool_steps: int | None = None, suite_steps: int | None = None) -> Loop:
    """Return the loop that a spec names, under a limit of steps unless it keeps its own, see `keeps_limit`.

    `tool_steps`: the limit that the user set for all loops. `suite_steps`: the one for loops that have none.
    Raises ValueError for an unknown name or option, an option's bad value, or a program that does not fit, and OSError for an
    unreadable one.
    """
    design = find("loop", spec.name)
    options = converted_options(design, spec.options, f"loop {spec.name}")
    if missing := _missing_option(design, options):
        cure = f"; {_AS_PROGRAM.format(spec.name)}" if inspect.isroutine(design) and ":" in spec.name else ""
        raise ValueError(f"loop {spec.name} needs {missing}: give {spec.name}({missing}=…){cure}")
    try:
        loop = design(**options)
        if not isinstance(loop, Loop):
            lacking = [part for part in _PARTS if getattr(loop, part, None) is None]
            raise ValueError(f"it lacks {joined(lacking) or 'a part of a loop'}: see whichloop.protocol.Loop")
        if spec.program is not None:
            if not isinstance(loop, Optimizable):
                lacks = "it has no predictors and with_predictors"
                raise ValueError(f"its prompts cannot be changed, so @{spec.program} does not fit: {lacks}")
            loop = with_program(loop, spec.program)
        limit = suite_steps if tool_steps is None else tool_steps
        limited: Loop = loop if limit is None or keeps_limit(loop, spec, tool_steps, limit) else loop.with_step_limit(limit)
        return limited
    except OSError:
        raise
    except (TypeError, ValueError) as error:
        raise ValueError(f"loop {spec}: {error}") from None
    except Exception as error:  # the boundary to the user's own code
        raise ValueError(f"loop {spec}: {type(error).__name__}: {error}") from error


def _missing_option(target: Callable[..., Any], typed: Mapping[str, Any]) -> str:
    """Return an option that has no default and is not given; empty if there is none."""
    needed = (name for name, option in options_of(target).items() if option.default is inspect.Parameter.empty)
    return next((name for name in needed if name not in typed), "")


def keeps_limit(loop: Loop, spec: Spec, tool_steps: int | None, limit: int) -> bool:
    """Whether a loop, or one inside it, has a limit of steps that stands against a run's `limit`: its user's or its author's.

    The user's is an option that was typed or set on an object; the author's a whole number that a class of theirs has as default,
    unless the user set `tool_steps` for all loops.
    """
    design, limited = type(loop), loop.with_step_limit(limit)
    for name, option in options_of(design).items():
        value, typed = getattr(loop, name, None), spec.options.get(name)
        if getattr(limited, name, None) == value:
            continue
        if isinstance(value, Loop):
            kept = keeps_limit(value, parse_spec(typed) if isinstance(typed, str) else Spec("", {}), tool_steps, limit)
        elif name in spec.options or (type(value) is int and value != option.default):
            kept = True
        else:
            kept = tool_steps is None and type(value) is int and any(name in _declared(each) for each in design.__mro__)
        if kept:
            return True
    return False


def _declared(design: type) -> set[str]:
    """Return the options that a class of the user's itself declares."""
    init = None if "__dataclass_fields__" in vars(design) else vars(design).get("__init__")
    names = {*inspect.get_annotations(design), *(inspect.signature(init).parameters if init else ())}
    return set() if design.__module__.startswith("whichloop.") else names


def own_limit(loop: Loop, spec: Spec, tool_steps: int | None, limit: int) -> int | None:
    """Return the limit that a loop keeps, in tool steps, 0 if unknown; None for one under the run's."""
    kept = (steps for steps in range(1, 1000) if not keeps_limit(loop, spec, tool_steps, steps))
    with contextlib.suppress(Exception):  # the boundary to the user's own code
        return next(kept, 0) if keeps_limit(loop, spec, tool_steps, limit) else None
    return 0


def specs_in(spec: Spec) -> list[Spec]:
    """Return a spec, then those that its options may hold, however deep; no text of a foreign loop's options is a loop."""
    found = [spec]
    for text in () if is_foreign(spec.name) else spec.options.values():
        if isinstance(text, str):
            with contextlib.suppress(ValueError):  # a text that is not a spec
                found += specs_in(parse_spec(text))
    return found


def loops_named(spec: Spec) -> list[str]:
    """Return the name in a spec, then the names that its options may hold, without importing anything.

    Only the loaded design knows whether an option's text is a loop, so `a.b:C` and names of plug-ins count as loops.
    """
    plugins = {point.name for point in plugins_of("whichloop.loops")}
    inner = [within.name for within in specs_in(spec)[1:]]
    return [spec.name, *(name for name in inner if ":" in name or name in plugins)]


def programs_named(spec: Spec) -> list[str]:
    """Return the commands, functions and interpreters that a spec starts in processes of their own."""
    started = [within.options.get(name) for within in specs_in(spec) if is_foreign(within.name) for name in _STARTED]
    return [each for each in started if isinstance(each, str)]


def make_suite(spec: Spec, data: Path | None = None, tools: str | None = None) -> Suite:
    """Return the suite that a spec names. `tools`: the name of the user's own module of tools, for suites without tools.

    Raises ValueError for a bad name, option or file, OSError for an unreadable one.
    """
    loader = find("suite", spec.name)
    if spec.program is not None:
        raise ValueError(f"suite {spec.name}: @{spec.program} is for loops")
    allowed, typed = options_of(loader), dict(spec.options)
    if "tools" in typed and "tools" in allowed:
        raise ValueError(f"suite {spec.name}: tools is not an option; name their module with --tools")
    if data is not None:
        if "data" not in allowed:
            raise ValueError(f"suite {spec.name} takes no --data file; csv, jsonl and parquet do")
        typed["data"] = data
    if tools is not None and "tools" not in allowed:
        raise ValueError(f"suite {spec.name} brings its own tools; leave --tools out")
    options = converted_options(loader, typed, f"suite {spec.name}")
    if tools is not None:
        options["tools"] = tools_named(tools)
    if missing := _missing_option(loader, options):
        how = {"data": "--data FILE", "tools": "--tools MODULE or mcp:COMMAND"}.get(missing, f"{spec.name}({missing}=…)")
        raise ValueError(f"suite {spec.name} needs {missing}: give {how}")
    try:
        suite = loader(**options)
    except Exception as error:  # code of the user's own
        if not (words := own_words(error)):
            raise
        raise ValueError(f"suite {spec}: {words}") from error
    if not isinstance(suite, Suite):
        raise ValueError(f"suite {spec.name} gives a {type(suite).__name__}, not a whichloop.datasets.task.Suite")
    return suite


def tools_named(name: str) -> OwnTools:
    """Return the tools of `my.module` or `my.module:NAME`, see `whichloop.datasets.importing.own_tools`, or of a server, `mcp:…`.

    Raises ValueError.
    """
    if is_mcp(name):
        return mcp_tools(name)
    module_name, colon, attribute = name.partition(":")
    module = own_module("tools", name, module_name)
    if colon and not hasattr(module, attribute):
        raise ValueError(f"tools {name!r}: {module_name} has no {attribute!r}")
    return offered(name, module, attribute)
