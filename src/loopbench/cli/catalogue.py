"""What can be named on the command line: loops, suites, profiles, metrics, models and optimizers, with their options."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from statistics import median
from typing import Any

from loopbench._extras import MissingExtra
from loopbench.datasets.task import Task
from loopbench.frameworks.installing import framework_class, pinned_version
from loopbench.metrics.measure import measures
from loopbench.metrics.scoring import SCORERS, scorer_names
from loopbench.models.local.weights import INSTALL, LIBRARY, find_weights
from loopbench.models.profiles import built_in_profiles, load_profile
from loopbench.protocol.installed import plugins_of
from loopbench.protocol.modules import module_in
from loopbench.protocol.names import LOCAL, LOCAL_FILE, Spec
from loopbench.runs.options import options_of
from loopbench.runs.registry import FOREIGN, PACKAGES, builtin_names, find, make_suite


@dataclass(frozen=True, slots=True)
class OptionLine:
    """One option as it is typed."""

    name: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One thing that can be named."""

    name: str
    summary: str
    options: tuple[OptionLine, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CatalogueSuite(CatalogueEntry):
    """A suite, with the facts that are known without options."""

    needs: str = ""
    """What must be given for the suite to have tasks, such as `--data`, so that the other facts are unknown; empty if nothing."""
    version: str = ""
    tasks: int = 0
    digest: str = ""
    """First 12 hex digits of the suite's digest."""
    splits: Mapping[str, int] = field(default_factory=dict)
    """Split → tasks, in the order train, dev, test, others; empty if the tasks name none."""
    median_plan: float = 0.0
    """Number of calls of the median plan."""


@dataclass(frozen=True, slots=True)
class CatalogueFramework(CatalogueEntry):
    """An agent framework, which runs in an environment of its own."""

    version: str = ""
    """The version that `loopbench frameworks install` gives."""
    installed: str | None = None
    """The version in the environment that it made; None if there is none."""


def entries(what: str) -> list[CatalogueEntry]:
    """Return what can be named; `what`: loops, suites, profiles, metrics, models or optimizers."""
    return _LISTS[what]()


def _designs(kind: str) -> list[CatalogueEntry]:
    make = _suite_entry if kind == "suite" else _entry
    plugins = sorted(point.name for point in plugins_of(f"loopbench.{kind}s"))
    return [make(kind, name) for name in builtin_names(kind)] + [CatalogueEntry(name, "(plug-in)") for name in plugins]


def _programs() -> list[CatalogueEntry]:
    return [_entry("program", name) for name in builtin_names("program")]


def _framework_entry(name: str) -> CatalogueFramework:
    plain = _entry("framework", name)
    try:
        installed = framework_class(name)().version
    except ValueError:
        installed = None
    return CatalogueFramework(name, plain.summary, plain.options, pinned_version(name), installed)


def _suite_entry(kind: str, name: str) -> CatalogueSuite:
    plain = _entry(kind, name)
    head = (name, plain.summary, plain.options)
    try:
        suite = make_suite(Spec(name, {}))
    except ValueError:
        needs = next((need for option in plain.options if (need := _need(option))), "")
        if not needs:  # no importer that lacks its file
            raise
        return CatalogueSuite(*head, needs=needs)
    found = Counter(str(task.labels["split"]) for task in suite.tasks if task.labels.get("split"))
    splits = {split: found[split] for split in sorted(found, key=lambda split: (_SPLITS.get(split, len(_SPLITS)), split))}
    return CatalogueSuite(*head, "", suite.version, len(suite.tasks), suite.digest[:12], splits, median_plan(suite.tasks))


def _need(option: OptionLine) -> str:
    """Return how an option that an importer needs is typed; empty for other options."""
    if option.name == "data":
        return "--data"
    return f"{option.name}=…" if option.default == _NEEDED else ""


def median_plan(tasks: Iterable[Task]) -> float:
    """Return the number of calls of the median plan; 0 if no task has a plan."""
    lengths = [len(task.plan.calls) for task in tasks if task.plan is not None]
    return float(median(lengths)) if lengths else 0.0


_NEEDED = "(needed)"
_SPLITS = {"train": 0, "dev": 1, "test": 2}


def _entry(kind: str, name: str) -> CatalogueEntry:
    try:
        target = find("loop" if kind in FOREIGN else kind, name)
    except MissingExtra as error:
        return CatalogueEntry(name, str(error).removeprefix(f"{kind} {name} "))
    text = inspect.getdoc(sys.modules[f"{PACKAGES[kind][0]}.{name}"]) or ""
    options = tuple(OptionLine(option.name, _shown(option.default), option.doc) for option in options_of(target).values())
    return CatalogueEntry(name, text.splitlines()[0] if text else "", options)


def _shown(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return _NEEDED
    text = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
    first, *more = text.splitlines() or [""]
    return f"{first[:40]}…" if more or len(first) > 40 else first


def _profiles() -> list[CatalogueEntry]:
    made = []
    for name in built_in_profiles():
        profile = load_profile(name)
        rates = tuple(OptionLine(kind, f"{rate:g}", "chance per point") for kind, rate in profile.rates.items())
        made.append(CatalogueEntry(name, f"{profile.description} {profile.evidence}".strip(), rates))
    return made


def _metrics() -> list[CatalogueEntry]:
    scorers = [CatalogueEntry(name, (inspect.getdoc(module_in(SCORERS, name)) or "").splitlines()[0]) for name in scorer_names()]
    return [CatalogueEntry(name, "of every arm and pair, with interval") for name in measures()] + scorers


def _models() -> list[CatalogueEntry]:
    return [
        CatalogueEntry("scripted", "follows each task's plan as far as the prompt shows its results; needs no network and no key"),
        CatalogueEntry(
            "PROVIDER/NAME", "a real model through DSPy, such as openai/gpt-4o-mini; its key comes from the environment"
        ),
        CatalogueEntry(LOCAL, f"a small real model in this process, SmolLM2-135M-Instruct; no network and no key{_lacking()}"),
        CatalogueEntry(f"{LOCAL_FILE}FILE", "any other GGUF file in this process, such as local:~/models/qwen3-4b.gguf"),
        CatalogueEntry("openai/NAME --base-url URL", "any OpenAI-compatible server"),
        CatalogueEntry("anthropic/NAME --base-url URL", "any server that speaks Anthropic's Messages"),
        CatalogueEntry("any of them --cassette FOLDER", "recorded (--cassette-mode record), or replayed without network and key"),
    ]


def _lacking() -> str:
    """Say what the model in the box still needs here; empty if nothing."""
    try:
        find_weights(LOCAL)
    except ValueError:
        return f"; not installed here: {INSTALL}"
    return "" if find_spec(LIBRARY) else "; not installed here: pip install 'loopbench[local]'"


def _optimizers() -> list[CatalogueEntry]:
    from loopbench.experiments.optimize.optimizer import optimizers  # loads DSPy: a second, and only this needs it

    made = []
    for optimizer in optimizers():
        options = tuple(OptionLine(option.name, _shown(option.default), option.doc) for option in optimizer.described.values())
        made.append(CatalogueEntry(optimizer.name, optimizer.summary, options))
    plugins = sorted(point.name for point in plugins_of("loopbench.optimizers"))
    own = CatalogueEntry(
        "package.module:Name", "a teleprompter of your own: a class or function that gives an object with DSPy's compile"
    )
    return [*made, *(CatalogueEntry(name, "(plug-in)") for name in plugins), own]


_LISTS: dict[str, Callable[[], list[CatalogueEntry]]] = {
    "loops": lambda: [*_designs("loop"), *_programs(), *map(_framework_entry, builtin_names("framework"))],
    "suites": lambda: _designs("suite"),
    "profiles": _profiles,
    "metrics": _metrics,
    "models": _models,
    "optimizers": _optimizers,
}
