"""An optimization's manifest is written again as it was read."""

from __future__ import annotations

from typing import Any

import pytest

from loopbench.experiments.optimize.manifest import read_optimization_manifest
from loopbench.experiments.optimize.run import prepare
from loopbench.runs.manifest import write_manifest
from loopbench.runs.store.files import MANIFEST, RunError


def test_a_manifest_is_written_as_it_was_read(configured: Any) -> None:
    made = prepare(configured())
    before = (made.folder / MANIFEST).read_bytes()
    manifest = read_optimization_manifest(made.folder)
    assert manifest == made.manifest
    write_manifest(made.folder, manifest)
    assert (made.folder / MANIFEST).read_bytes() == before


def test_a_damaged_split_is_named(configured: Any) -> None:
    folder = prepare(configured()).folder
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text().replace('"tasks"', '"taks"'))
    with pytest.raises(RunError, match=r"manifest\.json: splits\.train\.tasks: Field required"):
        read_optimization_manifest(folder)
