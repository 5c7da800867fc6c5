"""What can be named: loops, suites, profiles, metrics, models, each with a line about it and its options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from typing import Any

from loopbench.metrics.scorers import SCORERS
from loopbench.metrics.summary import METRICS
from loopbench.models.profiles import built_in_profiles, load_profile

from .registry import PACKAGES, builtin_names, find, options_of


@dataclass(frozen=True, slots=True)
class OptionLine:
    """One option as it is typed."""

    name: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be named."""

    name: str
    summary: str
    options: tuple[OptionLine, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def entries(what: str) -> list[Entry]:
    """`what`: loops, suites, profiles, metrics or models."""
    return _LISTS[what]()


def _designs(kind: str) -> list[Entry]:
    plugins = sorted(point.name for point in entry_points(group=f"loopbench.{kind}s"))
    return [_entry(kind, name) for name in builtin_names(kind)] + [Entry(name, "(plug-in)") for name in plugins]


def _entry(kind: str, name: str) -> Entry:
    target = find(kind, name)
    text = inspect.getdoc(sys.modules[f"{PACKAGES[kind][0]}.{name}"]) or ""
    options = tuple(OptionLine(option.name, _shown(option.default), option.doc) for option in options_of(target).values())
    return Entry(name, text.splitlines()[0] if text else "", options)


def _shown(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "(needed)"
    text = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
    first, *more = text.splitlines() or [""]
    return f"{first[:40]}…" if more or len(first) > 40 else first


def _profiles() -> list[Entry]:
    made = []
    for name in built_in_profiles():
        profile = load_profile(name)
        rates = tuple(OptionLine(kind, f"{rate:g}", "chance per point") for kind, rate in profile.rates.items())
        made.append(Entry(name, profile.description, rates))
    return made


def _metrics() -> list[Entry]:
    scorers = [Entry(name, (inspect.getdoc(scorer) or "").splitlines()[0]) for name, scorer in SCORERS.items()]
    return [Entry(name, "of every arm and pair, with interval") for name in METRICS] + scorers


def _models() -> list[Entry]:
    return [
        Entry("scripted", "follows each task's plan as far as the prompt shows its results; needs no network and no key"),
        Entry("scripted --over-http", "the same behind a server on loopback, asked as real models are; equal digests"),
        Entry("PROVIDER/NAME", "a real model through DSPy, such as openai/gpt-4o-mini; its key comes from the environment"),
        Entry("openai/NAME --base-url URL", "any OpenAI-compatible server, `loopbench serve` included"),
        Entry("any of them --cassette FOLDER", "recorded (--cassette-mode record), or replayed without network and key"),
    ]


_LISTS: dict[str, Callable[[], list[Entry]]] = {
    "loops": lambda: _designs("loop"),
    "suites": lambda: _designs("suite"),
    "profiles": _profiles,
    "metrics": _metrics,
    "models": _models,
}
