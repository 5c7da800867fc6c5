"""HTML pages: a document with its charts, self-contained, and the same bytes for the same run directory."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.several_runs import SeveralRuns, several_doc
from whichloop.experiments.compare.verdict import Verdict
from whichloop.experiments.optimize.config import OptimizationManifest
from whichloop.experiments.optimize.doc import kept_diff, optimize_doc
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.validate.doc import read_validity
from whichloop.experiments.why.doc import why_doc
from whichloop.experiments.why.losses import Why, losses_explained
from whichloop.protocol.names import SCRIPTED, value_text, without_process
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import RunError
from whichloop.text.doc import UNKNOWN, Block, Doc, Lines, Table, TraceLines
from whichloop.text.output import terminal_safe

from .charts import READ, accuracy_of_runs, charts, gains, validity

MAX_LOOPS = 6
"""Loops that a title names; of more it says how many."""
DIGEST_CHARS = 12
TEMPLATES = files("whichloop.reports.html").joinpath("templates")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page: the blocks of a document, its charts behind the answer and before the details."""

    title: str
    blocks: Sequence[Block]
    charts: Mapping[str, Markup] = field(default_factory=dict)
    """By their name in `READ`."""
    is_folded: bool = False


# --- titles ---


def run_title(run: Results) -> str:
    """Return the name of a run, or what it compared."""
    of_test = "Test: " if "/" in run_name(run.folder) else ""
    return run.manifest.settings.name or f"{of_test}{compared(run)}"


def compared(run: Results) -> str:
    """Return what a run compared, the most accurate loop first: `finish vs bare, react_extract · arithmetic · flaky-format`."""
    manifest = run.manifest
    models = tuple(dict.fromkeys(arm.model for arm in manifest.arms))
    has_faults = manifest.imported is None and SCRIPTED in models
    profiles = dict.fromkeys(arm.profile for arm in manifest.arms) if has_faults else ()
    ablation = ablation_result(run)
    subject = _versus(run.verdict)
    if ablation is not None:
        subject = f"{ablation.ablation.loop}, varied in {', '.join(ablation.ablation.factors)}"
    return _joined([subject, manifest.suite.name, ", ".join(profiles), _real(models), run.comparison.limits.words])


def _versus(verdict: Verdict) -> str:
    first, *others = (row.loop for row in verdict.rows)
    if len(others) < MAX_LOOPS:
        return f"{first} vs {', '.join(others)}" if others else first
    return f"{first} vs {', '.join(others[: MAX_LOOPS - 1])} and {len(others) - MAX_LOOPS + 1} others"


def optimization_title(manifest: OptimizationManifest) -> str:
    """Return the name of an optimization, or what it optimized: `finish, bare, optimized with GEPA · arithmetic · teachable`."""
    return manifest.settings.compare.name or _optimized(manifest)


def _optimized(manifest: OptimizationManifest) -> str:
    compare = manifest.settings.compare
    profiles = compare.profiles if SCRIPTED in compare.models else ()
    designs = ", ".join(design.design for design in manifest.designs)
    subject = f"{designs}, optimized with {without_process(manifest.optimizer.name)}"
    return _joined([subject, manifest.suite.name, ", ".join(profiles), _real(compare.models)])


def _real(models: Sequence[str]) -> str:
    """Return the models, unless there is only the scripted one."""
    return "" if tuple(models) == (SCRIPTED,) else ", ".join(models)


def _joined(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)


# --- pages ---


def report_html(run: Results) -> str:
    """Return the page of one run: its document with charts; folded why trials were lost, and how the run was made."""
    named = compared(run) if run.manifest.settings.name else ""
    return page_html(run_title(run), _joined([named, run_doc(run).title, f"run {run_name(run.folder)}"]), _parts(run))


def optimization_html(result: OptimizationResult) -> str:
    """Return the page of an optimization: what it gained and what its prompts became, then the comparison on the test tasks."""
    doc, named = optimize_doc(result), _optimized(result.manifest) if result.manifest.settings.compare.name else ""
    changes = tuple(
        TraceLines(f"What changed in the prompts: {design.design}", diff, detail=True)
        for design in result.designs
        if (diff := kept_diff(design))
    )
    parts = [Part("", (*doc.blocks, *changes), gains(result))]
    if result.test is not None:
        parts += [replace(part, title=f"Test: {part.title}".rstrip(": "), is_folded=True) for part in _parts(result.test)]
    subtitle = _joined([named, doc.title, f"run {run_name(result.folder)}"])
    return page_html(optimization_title(result.manifest), subtitle, parts)


def collection_html(several: SeveralRuns) -> str:
    """Return the page of several runs side by side."""
    doc = several_doc(several)
    runs = Table("Runs", ("run", "what"), tuple((run_name(run.folder), run_title(run)) for run in several.runs), detail=True)
    drawn, about = {"runs": accuracy_of_runs(several)}, dict.fromkeys(run.title for run in several.runs)
    part = Part("", (*_answer_first(doc), runs), drawn)
    return page_html(_versus(several.verdict), _joined([doc.title, *about]), [part])


def _parts(run: Results) -> list[Part]:
    """Return what a run says, the answer first. What cannot be read is told where it would stand."""
    why: Why | None = None
    more: list[Part] = []
    here = replace(run, folder=Path(run_name(run.folder)))  # the page does not depend on where the run is
    try:
        why = losses_explained(replace(run, folder=run.folder.resolve()))
        if any(arm.lost for arm in why.arms):
            more.append(Part("Why trials were lost", why_doc(here, why).blocks, is_folded=True))
    except RunError as error:
        more.append(_unread("The traces of this run cannot be read", error, run))
    try:
        if (found := read_validity(run.folder)) is not None:
            more.append(Part("How well the tunnel predicts", found.blocks, validity(found), is_folded=True))
    except RunError as error:
        more.append(_unread("The validation of this run cannot be read", error, run))
    answer = Part("", _answer_first(run_doc(run)), charts(run, why))
    return [answer, *more, Part("How the run was made", _made_of(run), is_folded=True)]


def _answer_first(doc: Doc) -> list[Block]:
    return sorted(doc.blocks, key=lambda block: not isinstance(block, Lines) or block.detail)


def _unread(title: str, error: RunError, run: Results) -> Part:
    name = run_name(run.folder)
    return Part(title, (Lines((("Warning", str(error).replace(str(run.folder.resolve()), name).replace(str(run.folder), name)),)),))


def _made_of(run: Results) -> tuple[Table, ...]:
    """Return suite, settings, versions and digests, and what each arm is made of."""
    options = {arm.arm: ", ".join(f"{n}={value_text(value)}" for n, value in arm.options.items()) for arm in run.manifest.arms}
    arms = tuple((arm.arm, arm.model, options[arm.arm] or UNKNOWN, arm.code[:DIGEST_CHARS]) for arm in run.manifest.arms)
    return Table("", ("what", "value"), tuple(_facts(run))), Table("Arms", ("arm", "model", "options", "its code"), arms)


def _facts(run: Results) -> Iterator[tuple[str, str]]:
    manifest, suite = run.manifest, run.manifest.suite
    yield "run", run_name(run.folder)
    yield "created", manifest.created
    yield "suite", f"{suite.name} {suite.version}, {counted(suite.tasks, 'task')}, digest {suite.digest[:DIGEST_CHARS]}"
    for source in () if manifest.imported is None else manifest.imported.sources:
        yield "imported from", f"{source.file}, sha256 {source.sha256[:DIGEST_CHARS]} ({source.by or source.format})"
        if source.readings:
            yield "read as", "; ".join(source.readings)
    if suite.max_tool_steps is not None:
        yield "step limit", counted(suite.max_tool_steps, "tool step")
    if manifest.imported is None:  # else no faults were drawn, and no seed is known
        yield from (("fault profile", f"{name}, digest {digest[:DIGEST_CHARS]}") for name, digest in manifest.profiles.items())
        yield "seed", str(manifest.seed)
    for name, weights in manifest.weights.items():
        yield f"weights of {name}", f"{weights['file']}, sha256 {weights['sha256'][:DIGEST_CHARS]}, by {weights['by']}"
    yield "settings", json.dumps(manifest.config, ensure_ascii=False)
    yield "digest of the records", run.digest
    if run.wall_s is not None:
        yield "took", f"{run.wall_s:,.1f} s"
    yield "versions", ", ".join(f"{name} {version}" for name, version in manifest.packages.items() if version)
    yield "machine", f"Python {manifest.python}, {manifest.platform}"


# --- HTML ---


def page_html(title: str, subtitle: str, parts: Sequence[Part]) -> str:
    """Return a page. Its policy forbids loading anything, and any style or script but its own."""
    page, chart, script = (TEMPLATES.joinpath(name).read_text("utf-8") for name in ("page.css", "chart.css", "page.js"))
    style = page + chart
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in (style, script))
    allowed = "; ".join(f"{kind}-src 'sha256-{digest}'" for kind, digest in zip(("style", "script"), digests, strict=True))
    policy = f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"
    texts = {"title": title, "subtitle": subtitle, "policy": policy, "style": Markup(style), "script": Markup(script)}  # noqa: S704
    return _environment().get_template("page.html.jinja").render(parts=parts, read=READ, **texts)


def doc_html(document: Doc) -> str:
    """Return a document as HTML, as a notebook shows it: without style or script, what only -v shows folded."""
    return _environment().get_template("doc.html.jinja").render(document=document)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("whichloop.reports.html"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["kind_of"] = lambda block: type(block).__name__
    return environment


def _visible(value: Any) -> Any:
    """Return what an expression of the template prints: text with visible control characters; our own markup unchanged."""
    return value if isinstance(value, Markup) else terminal_safe(str(value))
