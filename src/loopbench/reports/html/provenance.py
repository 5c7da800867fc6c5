"""The section on the origin of the numbers: the run's manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loopbench.experiments.compare.results import Results
from loopbench.protocol import render_value
from loopbench.runs.folders import run_name
from loopbench.runs.store.files import MANIFEST, RunError

from .document import Cell, Code, Folded, Grid, PageSection

DIGEST_CHARS = 12


def manifest_section(run: Results) -> PageSection:
    """Return the section on suite, profiles, arms, versions and digests, with the manifest. Raises RunError if it is damaged."""
    try:
        facts = Grid("The run", ("what", "value"), tuple(_facts(run)), is_sortable=False)
        arms = _arms(run)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder / MANIFEST}: {error!r}") from None
    whole = json.dumps(run.manifest, indent=2, ensure_ascii=False)
    return PageSection("manifest", "Manifest", (facts, arms, Folded(MANIFEST, (Code(whole),))))


def _facts(run: Results) -> Iterator[tuple[Cell, ...]]:
    manifest = run.manifest
    suite, config = manifest["suite"], manifest["config"]
    yield "run", run_name(run.folder)
    yield "created", _text(manifest.get("created"))
    yield "suite", f"{suite['name']} {suite['version']}, {suite['tasks']} tasks, digest {_short(suite.get('digest'))}"
    for source in (manifest.get("imported") or {}).get("from", ()):
        yield "imported from", f"{source['file']}, sha256 {_short(source['sha256'])} ({source['by'] or source['format']})"
    if suite.get("max_tool_steps") is not None:
        yield "step limit", f"{suite['max_tool_steps']} tool steps"
    for name, digest in (manifest.get("profiles") or {}).items():
        yield "fault profile", f"{name}, digest {_short(digest)}"
    yield "repeats, seed", f"{config['repeats']}, {manifest['seed']}"
    yield "level, margin", f"{config['alpha']:g}, {config['margin']:g}"
    yield "digest of the records", Code(run.digest)
    if run.wall_s is not None:
        yield "took", f"{run.wall_s:,.1f} s"
    packages = {name: version for name, version in (manifest.get("packages") or {}).items() if version}
    yield "versions", ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "machine", f"Python {_text(manifest.get('python'))}, {_text(manifest.get('platform'))}"


def _arms(run: Results) -> Grid:
    rows = tuple(
        (arm["arm"], _text(arm.get("model")), Code(_options(arm)), Code(_short(arm.get("code")))) for arm in run.manifest["arms"]
    )
    return Grid("What each arm is made of", ("arm", "model", "options typed", "digest of its code"), rows)


def _options(arm: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={render_value(value)}" for name, value in arm["options"].items()) or "–"


def _short(digest: Any) -> str:
    return _text(digest)[:DIGEST_CHARS]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "–" if value is None else render_value(value)
