"""The page of a validation, its figure in the report of its run, and how that run was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.experiments.validate.doc import interval_of_json, read_validity
from whichloop.protocol import render_value
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import MANIFEST, RunError
from whichloop.text.doc import Doc
from whichloop.text.numbers import interval

from .document import Banner, Block, Cell, Code, Figure, Folded, Grid, PageSection
from .svg import Axis, ChartRow, Group, Mark, interval_rows

VALIDITY = "How well the tunnel predicts"
_HOW = (
    "A fault profile was fitted to the traces of half of the tasks, the same loops ran under it on the other half, and what they "
    "did was written down, with a digest, before the validation read the run's own results on those tasks."
)
_MARKS: Mapping[str, Mark] = {"run": "dot", "tunnel": "undecided"}


def validity_section(folder: Path) -> PageSection | None:
    """Return what the last validation of a run found; None if there was none."""
    try:
        doc = read_validity(folder)
    except RunError as error:
        text = str(error).replace(str(folder), run_name(folder))  # the page does not depend on where the run is
        return PageSection("validity", VALIDITY, (Banner("The validation of this run cannot be read", (text,)),))
    return None if doc is None else PageSection("validity", VALIDITY, validity_blocks(doc))


def validity_blocks(doc: Doc) -> tuple[Block, ...]:
    """Return a validation's blocks with a chart of each loop's accuracy in the run and in the tunnel."""
    groups, told = [], []
    for loop in doc.data["loops"]:
        sides = {"run": interval_of_json(loop["real"]), "tunnel": interval_of_json(loop["predicted"])}
        groups.append(
            Group(loop["arm"], tuple(ChartRow(name, side, interval(side, 3), _MARKS[name]) for name, side in sides.items()))
        )
        told.append(f"{loop['arm']}: {', '.join(f'{name} {interval(side, 3)}' for name, side in sides.items())}")
    title = "Accuracy in the run and in the tunnel"
    chart = interval_rows(title, f"On the held-out tasks: {'; '.join(told)}.", groups, Axis("accuracy"))
    return (*doc.blocks, Figure(chart, _HOW))


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
