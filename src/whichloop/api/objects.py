"""Loops, suites, scorers, profiles and optimizers that a program hands over as objects, and the names that stand for them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from whichloop import session
from whichloop.datasets.generating import Source
from whichloop.datasets.importing.rows import is_frame
from whichloop.datasets.task import Suite
from whichloop.models.profiles import Profile, built_in_profiles, check_own_name, load_profile
from whichloop.protocol import Loop
from whichloop.protocol.names import lives_in_one_process, parse_spec, value_text
from whichloop.protocol.values import shown_short
from whichloop.runs.built_in import FOREIGN, PACKAGES, builtin_names
from whichloop.runs.registry import find, loops_named, make_loop, make_suite

SUITE_FROM_ROWS = "whichloop.suite_from_frame makes a suite of a DataFrame, or of a list of dicts, a row each"
"""How to hand over rows of questions and answers."""
AnySuite = str | Suite | Callable[..., Suite]
AnyScorer = str | Callable[..., float]


def loop_name(loop: str | Loop | type[Loop], setting: str = "loops") -> str:
    """Return the name of a loop: as it is typed, or of a class, or of an object with the options that differ from their defaults.

    A class that can be imported, or that stands in the running script or notebook, gets its own name; the object behind it is made
    again from its options. Any other object is kept in `whichloop.session`, under the same name at every call.
    Raises ValueError, which names the setting, for what is not a loop.
    """
    if isinstance(loop, str):
        return loop
    if not (hasattr(loop, "run") and hasattr(loop, "with_step_limit") if isinstance(loop, type) else isinstance(loop, Loop)):
        own = "" if not inspect.isroutine(loop) else "; decorate a function that solves a task with @whichloop.tunnel.loop"
        raise ValueError(f"{setting}: {shown_short(loop)} is not a loop: it needs name, stops, run and with_step_limit{own}")
    if isinstance(loop, type):
        return _importable("loop", loop) or _keep_class(loop)
    design = type(loop)
    if (own_name := _importable("loop", loop)) is not None:
        return own_name
    home = _importable("loop", design)
    options = _options(loop)
    if home is not None and options is not None:
        text = home + (f"({options})" if options else "")
        if _makes_again(text, loop):
            return text
    return _keep_object(loop, getattr(_made_of(loop), "__name__", design.__name__), design)


def suite_name(suite: AnySuite, scorer: AnyScorer | None = None, data: Path | None = None, tools: str | None = None) -> str:
    """Return the name of a suite; with `scorer`, of the suite whose tasks are all judged by it.

    `data`, `tools`: what a suite by name is read from, if a scorer is to judge its tasks.
    Raises ValueError for what is not a suite, and OSError for a file that cannot be read.
    """
    if scorer is not None:
        judge = scorer_name(scorer)
        name = "" if isinstance(suite, Suite) else suite_name(suite)
        plain = suite if isinstance(suite, Suite) else make_suite(parse_spec(name), data, tools)
        tasks = tuple(dataclasses.replace(task, scorer=judge) for task in plain.tasks)
        judged = dataclasses.replace(plain, tasks=tasks)
        if isinstance(suite, Suite):
            return session.keep((id(suite), judge), suite.name, lambda: _giving(lambda: judged, judged.open), suite)
        return session.keep((name, data, tools, judge), judged.name, lambda: _giving(lambda: judged, judged.open))
    if isinstance(suite, str):
        return suite
    if isinstance(suite, Suite):
        return _keep_object(suite, suite.name, suite.open)
    if not callable(suite) or not _has_parameters(suite):
        rows = f"; {SUITE_FROM_ROWS}" if isinstance(suite, Sequence) or is_frame(suite) else ""
        raise ValueError(f"suite: {shown_short(suite)} is not a Suite, nor a function that makes one, nor a name{rows}")
    return _built_in_suite(suite) or _importable("suite", suite) or _keep_function(suite)


def scorer_name(scorer: AnyScorer) -> str:
    """Return the name of a scorer, a function of a Judgement. Raises ValueError for what cannot be called."""
    if isinstance(scorer, str):
        return scorer
    if not callable(scorer) or isinstance(scorer, type):
        raise ValueError(f"scorer: {shown_short(scorer)} is not a function of a Judgement, nor the name of one")
    return _importable("scorer", scorer) or _keep_function(scorer)


def optimizer_name(optimizer: str | type | object) -> str:
    """Return the name of an optimizer: as it is typed, or of a class, or of an object with a method `compile`.

    An object or a function without a name of its own is kept for as long as the process lives: a run that is cut off may be resumed
    after the cell that made it has let go of it.
    Raises ValueError for what is none of these.
    """
    if isinstance(optimizer, str):
        return optimizer
    if not callable(getattr(optimizer, "compile", None)) and not inspect.isfunction(optimizer):
        raise ValueError(
            f"optimizer: {shown_short(optimizer)} is not a name, nor a class or an object with compile(student, trainset=…)"
        )
    if isinstance(optimizer, type):
        return _importable("optimizer", optimizer) or _keep_class(optimizer)
    if inspect.isfunction(optimizer):
        return _importable("optimizer", optimizer) or session.keep(id(optimizer), optimizer.__name__.strip("<>"), lambda: optimizer)
    home = type(optimizer)
    return session.keep((id(optimizer), ""), home.__name__, lambda: _giving(lambda: optimizer, home))


def profile_name(profile: str | Path | Profile, runs: str | Path) -> str:
    """Return a profile's name: as it is typed, or of a Profile object.

    A Profile that is not built in is written to a file in the folder of runs, from which a run that is resumed reads it again.
    Raises ValueError for what is not a profile or takes the name of a built-in one, and OSError if the file cannot be written.
    """
    if isinstance(profile, str | Path):
        return str(profile)
    if not isinstance(profile, Profile):
        raise ValueError(f"profiles: {shown_short(profile)} is not a Profile, nor the name or path of one")
    if profile.name in built_in_profiles() and load_profile(profile.name) == profile:
        return profile.name
    check_own_name(profile, "profiles")
    path = Path(runs) / "profiles" / f"{profile.name}-{profile.digest[:8]}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(profile.to_toml(), encoding="utf-8")
    return str(path)


def check_workers_can_import(setting: str, names: Iterable[str]) -> None:
    """Raise ValueError, which names the setting, where a name or one inside it leads to what exists in this process only."""
    for name in (inner for text in names for inner in loops_named(parse_spec(text))):
        if not lives_in_one_process(name):
            continue
        attribute = name.partition(":")[2]
        why = "lives in this process alone, where worker processes cannot import it"
        raise ValueError(f"{setting}: {attribute} {why}: move it to a module, or leave workers and engine out")


def _has_parameters(target: Callable[..., Any]) -> bool:
    """Say whether Python knows the parameters of what can be called, which it does not for `int`."""
    try:
        inspect.signature(target)
    except (TypeError, ValueError):
        return False
    return True


def _built_in_suite(maker: Callable[..., Suite]) -> str | None:
    """Return the name of the built-in suite whose loader this is, or None."""
    source: object = getattr(maker, "__self__", None)
    name = source.name if isinstance(source, Source) else ""
    is_built_in = name in builtin_names("suite") and getattr(find("suite", name), "__self__", None) is source
    return name if is_built_in else None


def _importable(kind: str, target: Any) -> str | None:
    """Return the name under which an import finds a class, a function or a loop made of one again, or None."""
    origin = _made_of(target)
    module, name = getattr(origin, "__module__", None), getattr(origin, "__qualname__", "")
    if module is None or not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not target:
        return None
    frameworks = getattr(sys.modules.get("whichloop.frameworks.table"), "FRAMEWORKS", {}) if kind == "loop" else {}
    if framework := next((name for name, each in frameworks.items() if each is target), None):
        return str(framework)
    for place in (kind, *FOREIGN) if kind == "loop" else (kind,):
        if place not in PACKAGES:
            continue
        package, attribute = PACKAGES[place]
        built_in: str
        built_in, _, _ = module.removeprefix(f"{package}.").partition(".")  # `bare` for whichloop.loops.bare and what lies in it
        if getattr(sys.modules.get(f"{package}.{built_in}"), attribute, None) is target:
            return built_in
    if module == "__main__":
        session.HANDED_OVER.add(f"{module}:{name}")
    return f"{module}:{name}"


def _made_of(target: Any) -> Any:
    """Return the function of a loop that `whichloop.tunnel.loop` has made; anything else is made of itself."""
    return getattr(target, "function", target) if isinstance(target, Loop) and not isinstance(target, type) else target


def _options(target: Any) -> str | None:
    """Return the options that differ from their defaults as text, or None where they cannot be known."""
    if not dataclasses.is_dataclass(target):
        return "" if type(target).__init__ is object.__init__ else None
    parts = []
    for field in dataclasses.fields(target):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = getattr(target, field.name)
        if not field.init or value == default:
            continue
        if isinstance(value, Loop):
            value = loop_name(value)
        parts.append(f"{field.name}={value_text(list(value) if isinstance(value, tuple) else value)}")
    return ", ".join(parts)


def _makes_again(text: str, loop: Loop) -> bool:
    """Say whether a name makes an equal loop; objects that are not compared by value have no options to lose."""
    try:
        remade = make_loop(parse_spec(text))
    except (ValueError, OSError):
        return False
    return remade == loop or (type(remade) is type(loop) and not dataclasses.is_dataclass(loop) and not vars(loop))


def _keep_class(target: type) -> str:
    """Keep a class; one that is defined again in the same place, as in a notebook's cell, takes its name."""
    return session.keep((target.__module__, target.__qualname__), target.__name__, lambda: target)


def _keep_function(target: Callable[..., Any]) -> str:
    """Keep a function for as long as the program holds it, and return its name."""
    name = getattr(target, "__name__", type(target).__name__).strip("<>")
    return session.keep(id(target), name, _reference(target), target)


def _keep_object(value: object, name: str, home: object) -> str:
    """Keep a function that gives an object, for as long as the object lives, and return its name.

    `home`: whose module's code it counts as.
    """
    return session.keep((id(value), ""), name, functools.partial(_giving, _reference(value), home), value)


def _reference(value: Any) -> Callable[[], Any]:
    """Return a function that returns the object, without keeping it alive where that is possible."""
    try:
        return weakref.ref(value)
    except TypeError:  # its class has __slots__
        return lambda: value


def _giving(give: Callable[[], Any], home: object) -> Callable[[], Any]:
    def give_again() -> Any:
        return give()

    give_again.__module__ = getattr(home, "__module__", None) or session.__name__
    return give_again
