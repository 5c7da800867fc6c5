"""The table of docs/validity.md, and the second model of a model that it rests on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import block

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> Iterator[tuple[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("validity"), importlib.import_module("other_policy")


def accuracies(benchmark: tuple[Any, Any], temper: Any, folder: Path) -> dict[str, float]:
    validity, other = benchmark
    config = validity.CompareConfig(
        loops=validity.LOOPS, profiles=["clean"], suite="arithmetic(size=6)", mlflow=False, runs=str(folder)
    )
    with other.in_the_tunnels_place(temper):
        assert not validity.run(validity.prepare(config, folder / "run"), validity.Unwatched())
    results = importlib.import_module("whichloop.experiments.compare.results").results(folder / "run")
    return {arm.info.loop: arm.summary.accuracy.value for arm in results.comparison.arms}


def test_the_other_model_solves_what_it_does_not_spoil(benchmark: tuple[Any, Any], tmp_path: Path) -> None:
    _, other = benchmark
    assert accuracies(benchmark, other.Temper("careful"), tmp_path / "good") == dict.fromkeys(benchmark[0].LOOPS, 1.0)
    spoiled = accuracies(benchmark, other.Temper("hopeless", miscopies=1.0), tmp_path / "bad")
    assert sum(spoiled.values()) < 2.5


def test_every_row_of_the_table_is_there(benchmark: tuple[Any, Any]) -> None:
    validity, other = benchmark
    table = block(validity.PAGE, "validity")
    for under in (*(f"`{profile}`" for profile in validity.PROFILES), *(f"the other policy, {one.name}" for one in other.TEMPERS)):
        assert f"\n| {under} | " in table
    assert f"{validity.TASKS} tasks" in table
