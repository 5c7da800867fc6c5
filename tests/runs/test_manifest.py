"""The manifest's type: what is read is written again as it was, and damage is named by file and field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sealing import reseal
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import prepare, run
from whichloop.protocol.json_text import unseal
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest, write_manifest
from whichloop.runs.store.files import MANIFEST, RunError

MakeManifest = Callable[..., dict[str, Any]]
NOTE = {"when": "2026-01-02T00:00:00+00:00", "trials": 2}
HISTORY: Mapping[str, Any] = {
    "cut_short": {"calls": 3, "tokens": 40, "dollars": 0.25, "seconds": 1.5},
    "retried": [{"when": NOTE["when"], "what": "errors", "trials": 2}],
    "rescored": [{"when": NOTE["when"], "suite": "d0", "trials": 2}],
    "extended": [NOTE | {"to": 4}],
}
ARM = {"arm": "bare/clean", "loop": "bare", "options": {"check_types": True}, "model": "scripted", "profile": "clean"}


def same_text(data: Mapping[str, Any], folder: Path) -> None:
    """Assert that a manifest which is read and written again has the same bytes, keys in the same order."""
    text = json.dumps(data, indent=2) + "\n"
    (folder / MANIFEST).write_text(text)
    reseal(folder / MANIFEST)
    sealed = (folder / MANIFEST).read_bytes()
    assert unseal(sealed).decode() == text
    write_manifest(folder, read_manifest(folder))
    assert (folder / MANIFEST).read_bytes() == sealed


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"arms": [ARM | {"configuration": "Bare()", "code": "c"}, ARM | {"arm": "b", "code": "c", "program": "p"}]},
        {"asked": {"questions": "q", "plans": "p"}, "models": {"m": {"x": 1}}, "suite_problems": ["no plan"]},
        {"ablation": {"loop": "bare", "cells": {}}},
        HISTORY,
        {"config": {"engine": "slurm", "provider": {"retries": 1}, "traces": "some", "cassette_mode": "other"}},
        {"config": {"name": "secret: abcd1234efgh", "models": ["scripted"], "cassette": "c", "address": "a", "no_such_setting": 1}},
        {"asked": {"questions": "q", "plans": "p", "tools": None}},
        {"of_a_later_version": [1]},
    ],
)
def test_a_manifest_is_written_as_it_was_read(manifest_json: MakeManifest, tmp_path: Path, parts: dict[str, Any]):
    same_text(manifest_json(**parts), tmp_path)


def test_a_manifest_of_a_real_run_is_written_as_it_was_read(tmp_path: Path):
    config = CompareConfig(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=6)", runs=tmp_path, mlflow=False)
    experiment = prepare(config.model_copy(update={"budget": config.budget.model_copy(update={"calls": 9})}))
    assert run(experiment, Unwatched())
    begun = unseal((experiment.folder / MANIFEST).read_bytes()).decode()
    assert "cut_short" in begun
    same_text(json.loads(begun), experiment.folder)
    assert reopen(experiment.folder, settings={"budget": {"calls": 90}}).manifest.cut_short.calls > 0


@pytest.mark.parametrize("version", [0, "new"])
def test_a_run_of_another_version_is_refused(manifest_json: MakeManifest, tmp_path: Path, version: Any):
    (tmp_path / MANIFEST).write_text(json.dumps(manifest_json() | {"versions": {"record": version}}))
    reseal(tmp_path / MANIFEST)
    with pytest.raises(RunError, match=rf"{MANIFEST}: its records have version {version!r}; this whichloop reads 1"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"arms": None}, "arms: Input should be a valid tuple"),
        ({"arms": [{}]}, r"arms\.0\.arm: Field required"),
        ({"config": {"repeats": None}}, "config: repeats: Input should be a valid integer"),
        ({"config": {"trial_timeout_s": "long"}}, "config: trial_timeout_s: Input should be a valid number"),
        ({"config": {"price": "gpt-4o-mini"}}, "config: price: 'gpt-4o-mini' is the name of a model"),
        ({"asked": {"questions": None, "plans": "p"}}, "asked: questions is missing"),
        ({"imported": {"from": [{}]}}, r"imported\.format: Field required"),
    ],
)
def test_damage_is_named_by_file_and_field(manifest_json: MakeManifest, tmp_path: Path, parts: dict[str, Any], said: str):
    (tmp_path / MANIFEST).write_text(json.dumps(manifest_json(**parts)))
    reseal(tmp_path / MANIFEST)
    with pytest.raises(RunError, match=rf"{MANIFEST}: {said}") as caught:
        read_manifest(tmp_path)
    assert "\n" not in str(caught.value)
