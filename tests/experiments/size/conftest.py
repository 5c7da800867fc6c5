"""Run directories with records made up, as pilots, and what is worked out from them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.size.doc import size_doc
from whichloop.experiments.size.pilot import SizeRequest
from whichloop.experiments.size.sizes import Sizing, size
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.store.files import write_manifest_json

Draw = Callable[[random.Random, int], float]


def solves(share: float) -> Draw:
    """Every task with the same chance."""
    return lambda rng, task: float(rng.random() < share)


def often(*shares: float) -> Draw:
    """Tasks with chances of their own, in turn."""
    return lambda rng, task: float(rng.random() < shares[task % len(shares)])


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[..., Results]:
    """A run directory with records made up."""
    return pilots_in(tmp_path)


def pilots_in(root: Path) -> Callable[..., Results]:

    def make(
        draws: dict[str, Draw],
        tasks: int = 100,
        repeats: int = 2,
        *,
        seed: int = 0,
        model: str = "openai/fake",
        suite: str = "my.module:Suite",
        manifest: dict[str, Any] | None = None,
        change: Callable[[Record], Record | None] = lambda record: record,
        **config: Any,
    ) -> Results:
        rng = random.Random(seed)
        settings = CompareConfig(loops=tuple(draws), suite=suite, models=(model,), repeats=repeats, seed=seed, **config)
        folder = root / f"run-{len([*root.iterdir()])}"
        folder.mkdir()
        arms = [{"arm": name, "loop": name, "options": {}, "model": model, "profile": "clean", "code": "c"} for name in draws]
        suite_facts = {"name": suite, "version": "1", "digest": "d", "tasks": tasks}
        made = {"created": "2026-01-01T00:00:00+00:00", "config": settings.public(), "seed": seed, "versions": {}}
        made |= {"suite": suite_facts, "profiles": {"clean": "p"}, "arms": arms}
        made |= {"packages": {}, "python": "3.11", "platform": "Linux"}
        write_manifest_json(folder, made | (manifest or {}))
        records = []
        for repeat in range(repeats):
            for task in range(tasks):
                for name, draw in draws.items():
                    record = change(trial(name, task, repeat, draw(rng, task), rng))
                    if record is not None:
                        records.append(record)
        put(folder, records)
        return results(folder)

    return make


def trial(name: str, task: int, repeat: int, score: float, rng: random.Random, **changes: Any) -> Record:
    values: dict[str, Any] = {"arm": name, "suite": "s", "suite_digest": "d", "task": f"t{task}", "repeat": repeat, "seed": 0}
    values |= {"status": "scored", "stop": "finished", "scores": {"accuracy": score}, "steps": 3 + task % 3 + rng.randrange(2)}
    values |= {"calls": {"decide": 4}, "input_tokens": 900 + task, "output_tokens": 100, "cost_usd": 0.01, "wall_s": 8.0}
    return Record(**(values | changes))


def plan(found: Sizing, purpose: str) -> Any:
    return next(made for made in found.plans if made.purpose == purpose)


def sized(found: Results, **wanted: Any) -> Sizing:
    """What is said of a pilot; whatever it is, it can be printed and is JSON."""
    made = size(found, SizeRequest(**wanted))
    shown = size_doc(made)
    assert json.loads(json.dumps(shown.data, allow_nan=False))["run"] == str(found.folder)
    assert all(all(isinstance(text, str) for text in row) for table in shown.tables for row in table.texts)
    assert [label for label in shown.facts if label in ("Compare", "Gate")] == [each.purpose.capitalize() for each in made.plans]
    return made


def warned(found: Sizing) -> dict[str, str]:
    """The warnings by their kind."""
    return {each.code: each.text for each in found.warnings}
