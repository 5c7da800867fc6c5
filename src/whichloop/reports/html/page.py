"""HTML pages of one run, several runs or an optimization: self-contained, and the same bytes for the same run directory."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.several_runs import SeveralRuns, several_doc
from whichloop.experiments.optimize.manifest import OptimizationManifest
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.run_doc import run_doc
from whichloop.metrics.arm_info import TrialLimits
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.sums import ranked
from whichloop.protocol.names import SCRIPTED, without_process
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import RunError
from whichloop.text.doc import Doc
from whichloop.text.output import terminal_safe

from . import charts
from .causes import find_losses, tasks_section, traces_section, why_section
from .document import Banner, Block, Chapter, Figure, Folded, Page, PageSection, Paragraph, kind_of, section_or_none, with_captions
from .failures import errors_section, recovery_section, steps_section
from .grouping import chart_names
from .optimized import optimization_sections
from .validity import VALIDITY, manifest_section, validity_blocks, validity_section
from .verdict import effects_section

MAX_LOOPS = 6
"""Loops that a title names; of more it says how many."""
DOT = " · "


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
    return _joined([_subject(run), manifest.suite.name, ", ".join(profiles), _real(models), run.comparison.limits.words])


def _subject(run: Results) -> str:
    ablation = ablation_result(run)
    if ablation is not None:
        return f"{ablation.ablation.loop}, varied in {', '.join(ablation.ablation.factors)}"
    first, *others = (row.loop for row in run.verdict.rows)
    if len(others) < MAX_LOOPS:
        return f"{first} vs {', '.join(others)}" if others else first
    return f"{first} vs {', '.join(others[: MAX_LOOPS - 1])} and {len(others) - MAX_LOOPS + 1} others"


def optimization_title(manifest: OptimizationManifest) -> str:
    """Return the name of an optimization, or what it optimized: `finish, bare, optimized with GEPA · arithmetic · teachable`."""
    compare = manifest.settings.compare
    return compare.name or optimized(manifest)


def optimized(manifest: OptimizationManifest) -> str:
    """Return what was optimized."""
    compare = manifest.settings.compare
    designs = ", ".join(design.design for design in manifest.designs)
    profiles = compare.profiles if SCRIPTED in compare.models else ()
    subject = f"{designs}, optimized with {without_process(manifest.optimizer.name)}"
    return _joined([subject, manifest.suite.name, ", ".join(profiles), _real(compare.models)])


def _real(models: Sequence[str]) -> str:
    """Return the models, unless there is only the scripted one."""
    return "" if tuple(models) == (SCRIPTED,) else ", ".join(models)


def _joined(parts: Iterable[str]) -> str:
    return DOT.join(part for part in parts if part)


_BREAKS = re.compile(r"([/(=_])(?=\w)")
MAX_UNBROKEN = 12
Sections = tuple[PageSection, ...]
TEMPLATES = files("whichloop.reports.html").joinpath("templates")


def report_html(results: Results) -> str:
    """Return the page of one run."""
    return render(Page(run_title(results), _subtitle(results), sections(results)))


def _subtitle(run: Results) -> str:
    """Return what a run compared, unless its title says so, its size and its directory."""
    named = f"{compared(run)}. " if run.manifest.settings.name else ""
    return f"{named}{run.title}. Run {run_name(run.folder)}"


def collection_html(several: SeveralRuns) -> str:
    """Return the page of several runs: what they say together, then each run, folded."""
    doc = several_doc(several)
    chapters = tuple(_chapter(run, f"run-{place}") for place, run in enumerate(several.runs, 1))
    subtitle = "; ".join(dict.fromkeys(run.title for run in several.runs))
    return render(Page(doc.title, subtitle, (PageSection("verdict", "Verdict", doc.blocks),), chapters))


def validity_html(folder: Path, doc: Doc) -> str:
    """Return the page of a validation of the run in a folder."""
    section = PageSection("validity", VALIDITY, validity_blocks(doc))
    return render(Page("Does the tunnel predict this run?", f"Run {run_name(folder)}. {doc.title}", (section,)))


def _chapter(run: Results, name: str) -> Chapter:
    """Return what a run says and its charts: everything else is on its own page."""
    doc = run_doc(run)
    found = verdict_section(doc), charts_section(run)
    command = f"whichloop report {shlex.quote(run_name(run.folder))}"
    return Chapter(name, run_title(run), f"{_subtitle(run)}. All of it: {command}", _present(found, name))


def verdict_section(doc: Doc) -> PageSection:
    """Return the section with the answer, the same as on a terminal."""
    return PageSection("verdict", "Verdict", (Paragraph(doc.title, "quiet"), *doc.shown(detail=False)))


def charts_section(run: Results) -> PageSection | None:
    """Return the charts of accuracy, of its differences, and of accuracy against cost."""
    comparison = ranked(run.comparison)
    infos = [arm.info for arm in comparison.arms]
    blocks: list[Block] = []
    if any(arm.summary.accuracy is not None for arm in comparison.arms):
        blocks.append(Figure(charts.accuracy(comparison.arms), "Dots are mean accuracies over the tasks, lines their intervals."))
    if comparison.pairs_on(PRIMARY):
        read = f"Right of the line the first arm is more accurate; the band is the margin of {comparison.margin:g}."
        blocks.append(Folded("Differences", (Figure(charts.forest(comparison), f"{read} Filled triangles are decided."),)))
    for front in run.views.fronts:
        read = f"{front.suite}, {front.profile}: up and to the left is better. The stair is the best accuracy for each cost."
        blocks.append(Figure(charts.pareto(front, chart_names(infos)), read))
    return section_or_none("charts", "Charts", blocks)


def _present(sections: Iterable[PageSection | None], prefix: str = "") -> Sections:
    """Return the sections that there are, with a prefix before their ids."""
    present = [section for section in sections if section is not None]
    return tuple(replace(section, id=f"{prefix}-{section.id}") if prefix else section for section in present)


def optimization_html(result: OptimizationResult) -> str:
    """Return the page of an optimization: what it gained, then the comparison on the test tasks."""
    test = () if result.test is None else sections(result.test, "test")
    tested = tuple(replace(section, title=f"Test: {section.title}") for section in test)
    named = f"{optimized(result.manifest)}. " if result.manifest.settings.compare.name else ""
    subtitle = f"{named}{result.title}. Run {run_name(result.folder)}"
    return render(Page(optimization_title(result.manifest), subtitle, (*optimization_sections(result), *tested)))


def sections(run: Results, prefix: str = "") -> Sections:
    """Return the sections of a run, the verdict first, empty ones left out. `prefix`: begins all ids."""
    ablation, doc = ablation_result(run), run_doc(run)
    comparison, records = ranked(run.comparison), run.records
    found = (
        verdict_section(doc),
        None if ablation is None else effects_section(ablation),
        charts_section(run),
        section_or_none("tables", "Tables", [block for block in doc.blocks if block.detail]),
        errors_section(comparison.arms),
        recovery_section(records, comparison.arms),
        steps_section(records, comparison.arms),
        *_loss_sections(run, prefix),
        validity_section(run.folder),
        manifest_section(run),
    )
    return _under_limits(comparison.limits, _present(found, prefix))


def _under_limits(limits: TrialLimits, sections: Sections) -> Sections:
    """Return the sections of a run whose tables say under which limits of its own to each trial they hold."""
    return tuple(replace(each, blocks=with_captions(each.blocks, limits.title)) for each in sections) if limits.words else sections


def _loss_sections(run_results: Results, prefix: str) -> tuple[PageSection | None, ...]:
    """Return the sections that are made from traces, or one that says why they cannot be read."""
    run_results = replace(run_results, folder=run_results.folder.resolve())
    try:
        losses = find_losses(run_results, prefix)
        return why_section(losses), tasks_section(losses.why), traces_section(losses)
    except RunError as error:
        text = str(error).replace(
            str(run_results.folder), run_name(run_results.folder)
        )  # the page does not depend on where the run is
        return (PageSection("why", "Why trials were lost", (Banner("The traces of this run cannot be read", (text,)),)),)


# --- the page itself ---


def render(document: Page) -> str:
    """Return a page as HTML. Its policy forbids loading anything, and any style or script but its own."""
    style, script = _file("page.css") + _file("chart.css"), _file("page.js")
    template = _environment().get_template("page.html.jinja")
    return template.render(document=document, style=trusted(style), script=trusted(script), policy=_policy(style, script))


def doc_html(document: Doc) -> str:
    """Return a document as HTML, as a notebook shows it: without style or script, what only -v shows folded."""
    return _environment().get_template("doc.html.jinja").render(document=document)


def trusted(text: str) -> Markup:
    """Return text of this package as markup that is not escaped."""
    return Markup(text)  # noqa: S704


def _policy(style: str, script: str) -> str:
    allowed = (
        "default-src 'none'",
        "img-src data:",
        f"style-src 'sha256-{_sha256(style)}'",
        f"script-src 'sha256-{_sha256(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(allowed)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _file(name: str) -> str:
    return TEMPLATES.joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("whichloop.reports.html"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"kind_of": kind_of, "breakable": breakable, "unbroken": unbroken}
    return environment


def visible(value: Any) -> Any:
    """Return what an expression of the template prints: text with visible control characters; our own markup unchanged."""
    return value if isinstance(value, Markup) else terminal_safe(str(value))


def breakable(text: str) -> Markup:
    """Return text that may be broken within the name of an arm or of an option."""
    return trusted(_BREAKS.sub(r"\1<wbr>", str(escape(terminal_safe(text)))))


def unbroken(text: str) -> str:
    """Return the heading of a column; a short one is kept on one line."""
    return text.replace(" ", "\u00a0") if len(text) <= MAX_UNBROKEN else text
