"""What can be named on the command line, with its options: the lines of `whichloop list`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from statistics import median
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from whichloop import cli
from whichloop._extras import MissingExtra, is_installed
from whichloop.datasets.task import Task
from whichloop.metrics.measures import MEASURES
from whichloop.metrics.scorers import SCORERS
from whichloop.models.local.server import INSTALL, LIBRARY, find_weights
from whichloop.models.profiles import built_in_profiles, load_profile
from whichloop.protocol.modules import module_in, plugins_of
from whichloop.protocol.names import LOCAL, LOCAL_FILE, SCRIPTED, Spec
from whichloop.runs.built_in import FOREIGN, builtin_names, options_of, summary_of
from whichloop.runs.registry import find, make_suite

NEEDED = "(needed)"
"""The default of an option that has none."""


@dataclass(frozen=True, slots=True)
class OptionLine:
    """One option as it is typed."""

    name: str
    default: str
    doc: str
    values: tuple[str, ...] = ()
    """The values that it takes, where there are only so many; empty otherwise."""


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
    """The version that `whichloop frameworks install` gives."""
    installed: str | None = None
    """The version in the environment that it made; None if there is none."""


def built_in(kind: str, name: str) -> CatalogueEntry:
    """Return the entry of a built-in loop, framework, program or suite; one that lacks a package says what to install."""
    try:
        target = find("loop" if kind in FOREIGN else kind, name)
    except MissingExtra as error:
        return CatalogueEntry(name, str(error).removeprefix(f"{kind} {name} "))
    return _described(name, summary_of(kind, name), target)


def own_loop(name: str) -> CatalogueEntry:
    """Return the entry of a loop of the user's own, `package.module:Name`, which is imported. Raises ValueError if it is none."""
    design = find("loop", name)
    if inspect.isclass(design) and not callable(getattr(design, "run", None)):
        raise ValueError(f"loop {name}: it lacks run: see whichloop.protocol.Loop")
    text = inspect.getdoc(design) or ""
    if text.startswith(f"{getattr(design, '__name__', '')}("):  # a dataclass without a docstring gets its signature for one
        text = ""
    return _described(name, text.partition("\n")[0], design)


def _described(name: str, summary: str, target: Callable[..., Any]) -> CatalogueEntry:
    """Return the entry of what takes options."""
    options = tuple(
        OptionLine(option.name, shown_default(option.default), option.doc, values_of(option.type))
        for option in options_of(target).values()
    )
    return CatalogueEntry(name, summary, options)


def outline(kind: str, name: str) -> CatalogueEntry:
    """Return the entry without options. Nothing is imported where DSPy is installed, the one package that a design may lack."""
    return CatalogueEntry(name, summary_of(kind, name)) if is_installed("dspy") else replace(built_in(kind, name), options=())


def plugins(kind: str) -> list[CatalogueEntry]:
    """Return what other packages declare; their code is not imported."""
    return [CatalogueEntry(name, "(plug-in)") for name in sorted(point.name for point in plugins_of(f"whichloop.{kind}s"))]


def values_of(kind: Any) -> tuple[str, ...]:
    """Return the values of a type that lists them, `Literal["run", "skip"]` or that or None; of others none."""
    if get_origin(kind) is Literal:
        return tuple(map(shown_default, get_args(kind)))
    parts = [part for part in get_args(kind) if part is not type(None)]
    if len(parts) == 1 and get_origin(kind) in (Union, UnionType) and get_origin(parts[0]) is Literal:
        return (*map(shown_default, get_args(parts[0])), shown_default(None))
    return ()


def shown_default(default: Any) -> str:
    """Return an option's default in one short line."""
    if default is inspect.Parameter.empty:
        return NEEDED
    text = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
    first, *more = text.splitlines() or [""]
    return f"{first[:40]}…" if more or len(first) > 40 else first


def _loops() -> list[CatalogueEntry]:
    designs = (built_in("loop", name) for name in builtin_names("loop"))
    programs = (built_in("program", name) for name in builtin_names("program"))
    return [*designs, *plugins("loop"), *programs, *cli.framework_entries()]


def _loop_outlines() -> list[CatalogueEntry]:
    """Return the loops without importing them."""
    designs = [outline("loop", name) for name in builtin_names("loop")]
    programs = [CatalogueEntry(name, summary_of("program", name)) for name in builtin_names("program")]
    frameworks = [CatalogueFramework(name, summary_of("framework", name)) for name in builtin_names("framework")]
    return [*designs, *plugins("loop"), *programs, *frameworks]


_SPLITS = {"train": 0, "dev": 1, "test": 2}


def _suites() -> list[CatalogueEntry]:
    return [*(_suite(name) for name in builtin_names("suite")), *plugins("suite")]


def _suite_outlines() -> list[CatalogueEntry]:
    """Return the suites without importing them, which would make their tasks."""
    return [*(CatalogueSuite(name, summary_of("suite", name)) for name in builtin_names("suite")), *plugins("suite")]


def _suite(name: str) -> CatalogueSuite:
    plain = built_in("suite", name)
    head = (name, plain.summary, plain.options)
    try:
        suite = make_suite(Spec(name, {}))
    except ValueError:
        needs = next((need for option in plain.options if (need := _need(option))), "")
        if not needs:  # no importer that lacks its file
            raise
        return CatalogueSuite(*head, needs=needs)
    split_sizes = Counter(str(task.labels["split"]) for task in suite.tasks if task.labels.get("split"))
    splits = {
        split: split_sizes[split] for split in sorted(split_sizes, key=lambda split: (_SPLITS.get(split, len(_SPLITS)), split))
    }
    return CatalogueSuite(*head, "", suite.version, len(suite.tasks), suite.digest[:12], splits, median_plan(suite.tasks))


def _need(option: OptionLine) -> str:
    """Return how an option that an importer needs is typed; empty for other options."""
    if option.name == "data":
        return "--data"
    return f"{option.name}=…" if option.default == NEEDED else ""


def median_plan(tasks: Iterable[Task]) -> float:
    """Return the number of calls of the median plan; 0 if no task has a plan."""
    lengths = [len(task.plan.calls) for task in tasks if task.plan is not None]
    return float(median(lengths)) if lengths else 0.0


FITS = {
    "native": "with native calls, such as finish and bare(decision_format=native)",
    "text": "with calls in text, such as bare, react_extract and stateless",
}
"""Form of calls that a profile was measured of → the loops that have it."""


def _profiles() -> list[CatalogueEntry]:
    profile_entries = []
    for name in built_in_profiles():
        profile = load_profile(name)
        rates = tuple(OptionLine(kind, f"{rate:g}", "chance per point") for kind, rate in profile.rates.items())
        fits = f"It fits loops {FITS[profile.measured_of]}." if profile.measured_of else ""
        by_form = "It has loops of both forms in one column." if profile.by_form else ""
        profile_entries.append(
            CatalogueEntry(name, " ".join(filter(None, (profile.description, profile.evidence, fits, by_form))), rates)
        )
    return profile_entries


def _metrics() -> list[CatalogueEntry]:
    meanings = {name: measure.meaning for name, measure in MEASURES.items()}
    meanings |= {name: (inspect.getdoc(scorer) or "").partition("\n")[0] for name, scorer in sorted(SCORERS.items())}
    return [CatalogueEntry(name, meaning) for name, meaning in meanings.items()]


def _models() -> list[CatalogueEntry]:
    return [
        CatalogueEntry(SCRIPTED, "follows each task's plan as far as the prompt shows its results; needs no network and no key"),
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
    return "" if find_spec(LIBRARY) else "; not installed here: pip install 'whichloop[local]'"


_ENTRIES: dict[str, Callable[[], list[CatalogueEntry]]] = {
    "loops": _loops,
    "suites": _suites,
    "profiles": _profiles,
    "metrics": _metrics,
    "models": _models,
    "optimizers": lambda: cast(list[CatalogueEntry], module_in("whichloop.cli", "searching").optimizer_entries()),
}
_OUTLINES = {"loops": _loop_outlines, "suites": _suite_outlines}
CATALOGUES = tuple(_ENTRIES)
"""What can be listed."""


def entries(what: str) -> list[CatalogueEntry]:
    """Return what can be named, with all facts; `what`: one of `CATALOGUES`."""
    return _ENTRIES[what]()


def outlines(what: str) -> list[CatalogueEntry]:
    """Return the same with names and summaries; facts and options may be missing, where they take long to find out."""
    return (_OUTLINES.get(what) or _ENTRIES[what])()
