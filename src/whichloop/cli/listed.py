"""What `whichloop list` lists. What costs time is imported for its kind alone, and names of plug-ins without their code."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from whichloop._extras import MissingExtra, is_installed
from whichloop.models.profiles import FORMS, built_in_profiles, load_profile
from whichloop.protocol.modules import plugins_of
from whichloop.protocol.names import LOCAL, LOCAL_FILE, SCRIPTED, Spec
from whichloop.runs.built_in import BUILT_IN, FOREIGN, field_docs, options_of
from whichloop.runs.config import SECTIONS, CompareConfig
from whichloop.runs.registry import find, make_suite

NEEDED = "(needed)"
"""The default of an option that has none."""
OWN_PLACE = "Frameworks, each in an environment of its own: whichloop install NAME"
TYPES: Mapping[Any, str] = {str: "text", int: "integer", float: "number", bool: "true|false", Path: "path"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be named; `group` is the title of the table in which it stands."""

    name: str
    summary: str
    options: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""


def _built_ins(kind: str, in_full: bool, only: str | None) -> Iterator[Entry]:
    """Yield what is built in. Where options are not asked for, it is imported only to find out whether a package lacks."""
    for name, summary in BUILT_IN[kind].items():
        if only not in (None, name):
            continue
        plain = Entry(name, summary)
        try:
            if in_full or not is_installed("dspy"):
                target = find("loop" if kind in FOREIGN else kind, name)
                plain = replace(plain, options=_options(target)) if in_full else plain
        except MissingExtra as error:
            plain = replace(plain, summary=str(error).removeprefix(f"{kind} {name} "))
        yield plain


def _plugins(kind: str) -> Iterator[Entry]:
    yield from (Entry(name, "(plug-in)") for name in sorted(point.name for point in plugins_of(f"whichloop.{kind}s")))


def _loops(in_full: bool, only: str | None) -> Iterator[Entry]:
    if only is not None and ":" in only:  # the user's own, which is imported
        design = find("loop", only)
        if inspect.isclass(design) and not callable(getattr(design, "run", None)):
            raise ValueError(f"loop {only}: it lacks run: see whichloop.protocol.Loop")
        text = inspect.getdoc(design) or ""
        is_signature = text.startswith(f"{getattr(design, '__name__', '')}(")  # of a dataclass without a docstring
        yield Entry(only, "" if is_signature else text.partition("\n")[0], _options(design))
    yield from _built_ins("loop", in_full, only)
    yield from _plugins("loop")
    yield from _built_ins("program", in_full, only)
    outlines = (replace(each, group=OWN_PLACE) for each in _built_ins("framework", False, only))
    yield from _frameworks(in_full, only) if in_full else outlines


def _frameworks(in_full: bool, only: str | None) -> Iterator[Entry]:
    from whichloop.frameworks.installing import pinned_version
    from whichloop.frameworks.table import FRAMEWORKS

    for plain in _built_ins("framework", in_full, only):
        try:
            installed = FRAMEWORKS[plain.name]().version
        except ValueError:
            installed = None
        yield replace(plain, facts={"version": pinned_version(plain.name), "installed": installed}, group=OWN_PLACE)


def _suites(in_full: bool, only: str | None) -> Iterator[Entry]:
    for plain in _built_ins("suite", in_full, only):
        yield replace(plain, facts=_facts(plain)) if in_full else plain
    yield from _plugins("suite")


def _facts(plain: Entry) -> Mapping[str, Any]:
    try:
        suite = make_suite(Spec(plain.name, {}))
    except ValueError:
        needed = [option["name"] for option in plain.options if option["name"] == "data" or option["default"] == NEEDED]
        if not needed:  # no importer that lacks its file
            raise
        return {"needs": "--data" if needed[0] == "data" else f"{needed[0]}=…"}
    sizes = Counter(str(task.labels["split"]) for task in suite.tasks if task.labels.get("split"))
    splits = {split: sizes[split] for split in dict.fromkeys(["train", "dev", "test", *sorted(sizes)]) if sizes[split]}
    calls = float(median([len(task.plan.calls) for task in suite.tasks if task.plan is not None] or [0]))
    sums = {"version": suite.version, "tasks": len(suite.tasks), "splits": splits, "median_plan": calls}
    return {"needs": "", **sums, "digest": suite.digest[:12]}


def _options(target: Callable[..., Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(_option(each.name, each.default, each.doc, each.type) for each in options_of(target).values())


def _option(name: str, default: Any, doc: str, kind: Any = None) -> Mapping[str, Any]:
    values = next((get_args(part) for part in (kind, *get_args(kind)) if get_origin(part) is Literal), ())
    if values and NoneType in get_args(kind):
        values = (*values, None)
    return {"name": name, "default": _shown(default), "doc": doc, "values": tuple(map(_shown, values))}


def _shown(default: Any) -> str:
    """Return a default in one short line."""
    if default is inspect.Parameter.empty:
        return NEEDED
    text = "none" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else str(default)
    first, *more = text.splitlines() or [""]
    return f"{first[:40]}…" if more or len(first) > 40 else first


def _settings(_: bool, __: str | None) -> Iterator[Entry]:
    from whichloop.experiments.optimize.config import SearchConfig

    for section, names in SECTIONS.items():
        for name in names:
            yield from _setting(CompareConfig, name, "", section)
    for name in SearchConfig.model_fields:
        yield from _setting(SearchConfig, name, "", "search, of optimize")


def _setting(model: Any, name: str, before: str, section: str) -> Iterator[Entry]:
    """Yield a setting, or those of a nested table."""
    info = model.model_fields[name]
    kind = next((part for part in (info.annotation, *get_args(info.annotation)) if hasattr(part, "model_fields")), None)
    if kind is not None:
        for each in kind.model_fields:
            yield from _setting(kind, each, f"{before}{name}.", section)
        return
    default = next((each for each in info.metadata if isinstance(each, str)), None)
    if default is None:
        default = ", ".join(info.default) if info.default and isinstance(info.default, tuple) else _shown(info.default)
    facts = {"type": _type_text(info.annotation), "default": default}
    yield Entry(f"{before}{name}", " ".join(field_docs(model)[name].split()), facts=facts, group=section)


def _type_text(kind: Any) -> str:
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part not in (NoneType, ...)]
    if origin is Literal:
        return "|".join(parts)
    return TYPES[kind] if origin is None else _type_text(parts[0]) + (", several" if origin is tuple else "")


def _profiles(in_full: bool, _: str | None) -> Iterator[Entry]:
    for name in built_in_profiles():
        loaded = load_profile(name)
        rates = tuple(_option(kind, f"{rate:g}", "chance per point") for kind, rate in loaded.rates.items())
        facts = {"measured_of": "both forms" if loaded.by_form else FORMS.get(loaded.measured_of or "", "")}
        yield Entry(name, loaded.description, rates, facts | ({"evidence": loaded.evidence} if in_full else {}))


def _metrics(_: bool, __: str | None) -> Iterator[Entry]:
    from whichloop.metrics.measures import MEASURES
    from whichloop.metrics.scorers import SCORERS

    yield from (Entry(name, measure.meaning) for name, measure in MEASURES.items())
    yield from (Entry(name, (inspect.getdoc(scorer) or "").partition("\n")[0]) for name, scorer in sorted(SCORERS.items()))


def _models(_: bool, __: str | None) -> Iterator[Entry]:
    yield Entry(SCRIPTED, "follows each task's plan as far as the prompt shows its results; needs no network and no key")
    yield Entry("PROVIDER/NAME", "a real model through DSPy, such as openai/gpt-4o-mini; its key comes from the environment")
    yield Entry(LOCAL, "a small real model in this process, SmolLM2-135M-Instruct; no network and no key")
    yield Entry(f"{LOCAL_FILE}FILE", "any other GGUF file in this process, such as local:~/models/qwen3-4b.gguf")
    yield Entry("openai/NAME", "with -s base_url=URL, any OpenAI-compatible server")
    yield Entry("anthropic/NAME", "with -s base_url=URL, any server that speaks Anthropic's Messages")
    yield Entry("any of them", "with -s cassette=FOLDER, replayed without network and key; -s cassette_mode=record records")


def _optimizers(_: bool, __: str | None) -> Iterator[Entry]:
    from whichloop.experiments.optimize.optimizer import optimizers

    for each in optimizers():
        options = tuple(_option(option.name, option.default, option.doc) for option in each.described.values())
        yield Entry(each.name, each.about.summary, options)
    yield from _plugins("optimizer")
    yield Entry("package.module:Name", "a teleprompter of your own: a class or function that gives an object with DSPy's compile")


KINDS: Mapping[str, Callable[[bool, str | None], Iterable[Entry]]] = {
    "loops": _loops, "frameworks": _frameworks, "suites": _suites, "profiles": _profiles, "metrics": _metrics, "models": _models,
    "optimizers": _optimizers, "settings": _settings,
}  # fmt: skip
"""Kind → what gives its entries; True: with options and facts. A name may leave out all others, to save time."""
