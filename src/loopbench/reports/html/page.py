"""Pages of HTML: one run, several runs, an optimization. Self-contained; the same bytes for the same run directory."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from loopbench.experiments.ablate.ablation import ablated
from loopbench.experiments.ablate.tables import conclusions
from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.several_runs import SeveralRuns
from loopbench.experiments.compare.tables import plain
from loopbench.experiments.optimize.result import OptimizationResult
from loopbench.runs.folders import run_name
from loopbench.runs.store.files import RunError

from .ablations import effects_section
from .arms import arms_section, pairs_section
from .causes import tasks_section, told, traces_section, why_section
from .cost import confidence_section, cost_section, fronts_section, reliability_section
from .document import Banner, Chapter, Page, PageSection, kind_of
from .failures import errors_section, recovery_section, steps_section
from .optimized import optimization_sections
from .overview import overview_section
from .overview import pairs_section as all_pairs_section
from .provenance import manifest_section
from .verdict import verdict_section

_BREAKS = re.compile(r"([/(=_])(?=\w)")
MAX_UNBROKEN = 12
TEMPLATES = files("loopbench.reports.html").joinpath("templates")


def report_html(found: Results) -> str:
    """The page of one run."""
    return render(Page(run_name(found.folder), found.title, sections(found)))


def collection_html(found: SeveralRuns) -> str:
    """Several runs on one page: an overview, then each run, folded."""
    title = f"{len(found.runs)} runs, {len(found.loops)} loops"
    overview = (overview_section(found), all_pairs_section(found))
    chapters = tuple(_chapter(run, f"run-{place}") for place, run in enumerate(found.runs, 1))
    subtitle = "; ".join(dict.fromkeys(run.title for run in found.runs))
    return render(Page(title, subtitle, tuple(section for section in overview if section is not None), chapters))


def _chapter(run: Results, name: str) -> Chapter:
    """The heart of a run: its pairs stand in the overview, and all else on its own page."""
    infos = [arm.info for arm in run.comparison.arms]
    made = (verdict_section(run), arms_section(run.comparison), fronts_section(run.views, infos))
    called = run_name(run.folder)
    whole = f"{run.title}. All of it: loopbench report {shlex.quote(called)}"
    return Chapter(name, called, whole, tuple(_under(name, made)))


def _under(name: str, made: Iterable[PageSection | None]) -> Iterator[PageSection]:
    return (replace(section, id=f"{name}-{section.id}") for section in made if section is not None)


def optimization_html(found: OptimizationResult) -> str:
    """The page of an optimization: what it gained, then the comparison on the test tasks."""
    test = () if found.test is None else sections(found.test, "test")
    tested = tuple(replace(section, title=f"Test: {section.title}") for section in test)
    return render(Page(run_name(found.folder), found.title, (*optimization_sections(found), *tested)))


def sections(found: Results, prefix: str = "") -> tuple[PageSection, ...]:
    """The verdict first; those that have nothing to say are left out. `prefix`: what all ids begin with."""
    comparison, records, seen = found.comparison, found.records, found.views
    ablation = ablated(found)
    made = (
        verdict_section(found, None if ablation is None else conclusions(ablation)),
        None if ablation is None else effects_section(ablation),
        arms_section(comparison),
        pairs_section(comparison),
        cost_section(seen, [arm.info for arm in comparison.arms]),
        reliability_section(seen.reliability),
        confidence_section(seen.confidence),
        errors_section(comparison.arms),
        recovery_section(records, comparison.arms),
        steps_section(records, comparison.arms),
        *_reasons(found, prefix),
        manifest_section(found),
    )
    return tuple(_under(prefix, made) if prefix else (section for section in made if section is not None))


def _reasons(found: Results, prefix: str) -> tuple[PageSection | None, ...]:
    """What traces say; where they cannot be read, that."""
    found = replace(found, folder=found.folder.resolve())
    try:
        known = told(found, prefix)
        return why_section(known), tasks_section(known.why), traces_section(known)
    except RunError as error:
        said = str(error).replace(str(found.folder), run_name(found.folder))  # where the run lies is no part of the page
        return (PageSection("why", "Why trials were lost", (Banner("The traces of this run cannot be read", (said,)),)),)


# --- the page itself ---


def render(document: Page) -> str:
    """As HTML. Nothing can load from the network: the page says so, and allows no style and no script but its own."""
    style, script = _file("page.css") + _file("chart.css"), _file("page.js")
    template = _environment().get_template("page.html.jinja")
    return template.render(document=document, style=ours(style), script=ours(script), policy=_policy(style, script))


def ours(text: str) -> Markup:
    """A file of this package, which stands on the page as it is."""
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
    made = Environment(
        loader=PackageLoader("loopbench.reports.html"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {"kind_of": kind_of, "breakable": breakable, "unbroken": unbroken}
    return made


def shown(value: Any) -> Any:
    """What an expression of the template gives: text with its control characters made visible; our own markup as it is."""
    return value if isinstance(value, Markup) else plain(str(value))


def breakable(text: str) -> Markup:
    """Text that may be broken within the name of an arm, or of an option."""
    return ours(_BREAKS.sub(r"\1<wbr>", str(escape(plain(text)))))


def unbroken(text: str) -> str:
    """A short heading of a column, on one line."""
    return text.replace(" ", "\u00a0") if len(text) <= MAX_UNBROKEN else text
