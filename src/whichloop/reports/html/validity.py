"""The page of a validation, its figure in the report of its run, and how that run was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from whichloop.experiments.compare.results import Results
from whichloop.experiments.validate.outcome import LoopValidity, Validity, read_summary
from whichloop.protocol import render_value
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import MANIFEST, RunError
from whichloop.text.numbers import interval

from .document import Banner, Block, Cell, Code, Figure, Folded, Grid, PageSection, Paragraph
from .svg import Axis, ChartRow, Group, Mark, interval_rows

VALIDITY = "How well the tunnel predicts"
_HOW = (
    "A fault profile was fitted to the traces of half of the tasks, the same loops ran under it on the other half, and what they "
    "did was written down, with a digest, before the validation read the run's own results on those tasks."
)


def validity_section(folder: Path) -> PageSection | None:
    """Return what the last validation of a run found; None if there was none."""
    try:
        summary = read_summary(folder)
    except RunError as error:
        text = str(error).replace(str(folder), run_name(folder))  # the page does not depend on where the run is
        return PageSection("validity", VALIDITY, (Banner("The validation of this run cannot be read", (text,)),))
    if summary is None:
        return None
    return PageSection("validity", VALIDITY, (Paragraph(summary.verdict, "strong"), Figure(figure(summary.loops), _HOW)))


def validity_blocks(validity: Validity) -> Iterator[Block]:
    yield Paragraph(validity.verdict, "strong")
    yield Figure(figure(validity.loops), _HOW)
    if validity.tau is not None:
        yield Paragraph(f"Kendall's tau-b of the loops' accuracies: {interval(validity.tau, 2)} (bootstrap over tasks).")
    columns = ("loop", "measure", "run", "tunnel", "run − tunnel", "")
    rows = tuple(
        (gap.loop, gap.measure, f"{gap.run:.2f}", f"{gap.again:.2f}", gap.between, "OFF" if gap.is_off else "")
        for gap in validity.gaps
    )
    yield Grid("Each loop, per trial", columns, rows)
    if validity.pairs:
        heads = ("better in the run", "than", "by", "in the tunnel by", "")
        pairs = tuple(
            (pair.better, pair.worse, interval(pair.real, 2), f"{pair.predicted:+z.2f}", "MISPLACED" if pair.is_misplaced else "")
            for pair in validity.pairs
        )
        yield Grid("Pairs that the run tells apart", heads, pairs)
    if validity.unknown_errors:
        unknown = tuple((kind, str(count)) for kind, count in validity.unknown_errors.items())
        yield Grid("Errors that the tunnel never made", ("kind", "in the held-out trials"), unknown)
    yield Paragraph(f"Prediction: {validity.digest}", "quiet")


_MARKS: Mapping[str, Mark] = {"run": "dot", "tunnel": "undecided"}


def figure(loops: Sequence[LoopValidity]) -> Markup:
    """Return each loop's accuracy in the run and in the tunnel, with intervals."""
    groups = []
    for loop in loops:
        sides = {"run": loop.real, "tunnel": loop.predicted}
        rows = tuple(ChartRow(name, value, interval(value, 3), _MARKS[name]) for name, value in sides.items())
        groups.append(Group(loop.arm, rows))
    loops_in_words = "; ".join(f"{loop.arm}: run {interval(loop.real, 3)}, tunnel {interval(loop.predicted, 3)}" for loop in loops)
    return interval_rows(
        "Accuracy in the run and in the tunnel", f"On the held-out tasks: {loops_in_words}.", groups, Axis("accuracy")
    )


DIGEST_CHARS = 12


def manifest_section(run: Results) -> PageSection:
    """Return the section on suite, profiles, arms, versions and digests, with the whole manifest, folded."""
    facts = Grid("The run", ("what", "value"), tuple(_facts(run)), is_sortable=False)
    rows = tuple((arm.arm, arm.model, Code(_options(arm.options)), Code(arm.code[:DIGEST_CHARS])) for arm in run.manifest.arms)
    arms = Grid("What each arm is made of", ("arm", "model", "options typed", "digest of its code"), rows)
    whole = json.dumps(run.manifest.to_json(), indent=2, ensure_ascii=False)
    return PageSection("manifest", "How the run was made", (facts, arms, Folded(MANIFEST, (Code(whole),))))


def _facts(run: Results) -> Iterator[tuple[Cell, ...]]:
    manifest = run.manifest
    suite, settings = manifest.suite, manifest.settings
    yield "run", run_name(run.folder)
    yield "created", manifest.created
    yield "suite", f"{suite.name} {suite.version}, {counted(suite.tasks, 'task')}, digest {suite.digest[:DIGEST_CHARS]}"
    for source in () if manifest.imported is None else manifest.imported.sources:
        yield "imported from", f"{source.file}, sha256 {source.sha256[:DIGEST_CHARS]} ({source.by or source.format})"
        if source.readings:
            yield "read as", "; ".join(source.readings)
    if suite.max_tool_steps is not None:
        yield "step limit", counted(suite.max_tool_steps, "tool step")
    is_imported = manifest.imported is not None  # no faults were drawn, and no seed is known
    for name, digest in () if is_imported else manifest.profiles.items():
        yield "fault profile", f"{name}, digest {digest[:DIGEST_CHARS]}"
    for name, weights in manifest.weights.items():
        yield f"weights of {name}", f"{weights.file}, sha256 {weights.sha256[:DIGEST_CHARS]}, by {weights.by}"
    yield ("repeats", str(settings.repeats)) if is_imported else ("repeats, seed", f"{settings.repeats}, {manifest.seed}")
    yield "level, margin", f"{settings.alpha:g}, {settings.margin:g}"
    yield "digest of the records", Code(run.digest)
    if run.wall_s is not None:
        yield "took", f"{run.wall_s:,.1f} s"
    packages = {name: version for name, version in manifest.packages.items() if version}
    yield "versions", ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "machine", f"Python {manifest.python}, {manifest.platform}"


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={render_value(value)}" for name, value in options.items()) or "–"
