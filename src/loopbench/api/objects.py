"""Loops, suites and scorers that a program hands over as objects, turned into the names that a configuration holds."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal

from loopbench import session
from loopbench.datasets.generating import Source
from loopbench.datasets.task import Suite, Task
from loopbench.protocol import Loop
from loopbench.protocol.names import parse_spec, value_text
from loopbench.runs.registry import PACKAGES, builtin_names, find, make_loop

Kind = Literal["loop", "suite", "scorer"]
MAIN, SESSION = "__main__", session.__name__


def loop_name(given: str | Loop | type[Loop]) -> str:
    """Return the name of a loop: as it is typed, or of a class, or of an object with the options that differ from their defaults.

    A class that can be imported, or that stands in the running script or notebook, gets its own name; the object behind it is made
    again from its options. Any other object is kept in `loopbench.session`.
    Raises ValueError for what is not a loop.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, type):
        return _importable("loop", given) or _keep(given, given.__name__, given)
    if not isinstance(given, Loop):
        raise ValueError(f"loops: {given!r} is not a loop: it needs name, stops, run and with_step_limit")
    design = type(given)
    home = _importable("loop", design)
    options = _options(given)
    if home is not None and options is not None:
        text = home + (f"({options})" if options else "")
        if _makes_again(text, given):
            return text
    return _keep(lambda: given, design.__name__, design)


def suite_name(given: str | Suite | Callable[..., Suite], scorer: str | Callable[..., float] | None = None) -> str:
    """Return the name of a suite; with `scorer`, of the suite whose tasks are all judged by it. Raises ValueError."""
    if isinstance(given, str):
        if scorer is not None:
            raise ValueError("scorer: it judges the tasks of a Suite object; a suite by name brings its own scorers")
        return given
    if not isinstance(given, Suite):
        if scorer is not None:
            raise ValueError("scorer: it judges the tasks of a Suite object; call the function that makes the suite")
        if not callable(given):
            raise ValueError(f"suite: {given!r} is not a Suite, nor a function that makes one, nor a name")
        return _built_in_suite(given) or _importable("suite", given) or _keep(given, _plain_name(given), given)
    if scorer is None:
        return _keep(lambda: given, given.name, given.open)
    judged = dataclasses.replace(given, tasks=_judged(given.tasks, scorer_name(scorer)))
    return _keep(lambda: judged, given.name, given.open)


def scorer_name(given: str | Callable[..., float]) -> str:
    """Return the name of a scorer, a function of a Judgement. Raises ValueError for what cannot be called."""
    if isinstance(given, str):
        return given
    if not callable(given):
        raise ValueError(f"scorer: {given!r} is not a function of a Judgement, nor the name of one")
    return _importable("scorer", given) or _keep(given, _plain_name(given), given)


def check_workers_can_import(names: Iterable[str]) -> None:
    """Raise ValueError where a name leads to an object that exists in this process only."""
    for name in names:
        module, colon, attribute = parse_spec(name).name.partition(":")
        if colon and module in (MAIN, SESSION):
            where = "the running script or notebook" if module == MAIN else "this process only"
            raise ValueError(
                f"{attribute} is defined in {where}, where worker processes cannot import it: "
                "move it to a module, or leave workers and engine out"
            )


def _judged(tasks: Iterable[Task], scorer: str) -> tuple[Task, ...]:
    return tuple(dataclasses.replace(task, scorer=scorer) for task in tasks)


def _built_in_suite(given: Callable[..., Suite]) -> str | None:
    """Return the name of the built-in suite whose loader this is, or None."""
    source: object = getattr(given, "__self__", None)
    name = source.name if isinstance(source, Source) else ""
    is_built_in = name in builtin_names("suite") and getattr(find("suite", name), "__self__", None) is source
    return name if is_built_in else None


def _importable(kind: Kind, target: Any) -> str | None:
    """Return the name under which an import finds a class or function again, or None."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if module is None or not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not target:
        return None
    if kind in PACKAGES:
        package, attribute = PACKAGES[kind]
        built_in: str = module.removeprefix(f"{package}.").partition(".")[
            0
        ]  # `bare` for loopbench.loops.bare and for what lies in it
        if getattr(sys.modules.get(f"{package}.{built_in}"), attribute, None) is target:
            return built_in
    return f"{module}:{name}"


def _options(given: Any) -> str | None:
    """Return the options that differ from their defaults as text, or None where they cannot be known."""
    if not dataclasses.is_dataclass(given):
        return "" if type(given).__init__ is object.__init__ else None
    parts = []
    for field in dataclasses.fields(given):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = getattr(given, field.name)
        if not field.init or value == default:
            continue
        if isinstance(value, Loop):
            value = loop_name(value)
        parts.append(f"{field.name}={value_text(list(value) if isinstance(value, tuple) else value)}")
    return ", ".join(parts)


def _makes_again(text: str, given: Loop) -> bool:
    """Say whether a name makes an equal loop; objects that are not compared by value have no options to lose."""
    try:
        made = make_loop(parse_spec(text))
    except (ValueError, OSError):
        return False
    return made == given or (type(made) is type(given) and not dataclasses.is_dataclass(given) and not vars(given))


def _keep(target: Callable[..., Any], name: str, home: object) -> str:
    """Keep an object in `loopbench.session` under a free name, and return that name. `home`: whose module's code it counts as."""
    if inspect.isfunction(target) and target.__name__ == "<lambda>":
        target.__module__ = getattr(home, "__module__", SESSION)
    base = "".join(letter if letter.isalnum() else "_" for letter in name)
    number, free = 1, base
    while hasattr(session, free):
        number += 1
        free = f"{base}_{number}"
    setattr(session, free, target)
    return f"{SESSION}:{free}"


def _plain_name(given: Any) -> str:
    return getattr(given, "__name__", type(given).__name__).strip("<>")
