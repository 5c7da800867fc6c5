"""The table of docs/validity.md, and the second model of a model that it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from whichloop.experiments.compare.results import results

VALIDITY, OTHER = load_benchmark("validity"), load_benchmark("other_policy")


def accuracies(temper: Any, folder: Path) -> dict[str, float]:
    config = VALIDITY.CompareConfig(
        loops=VALIDITY.LOOPS, profiles=["clean"], suite="arithmetic(size=6)", mlflow=False, runs=str(folder)
    )
    with OTHER.in_the_tunnels_place(temper):
        assert not VALIDITY.run(VALIDITY.prepare(config, folder / "run"), VALIDITY.Unwatched())
    found = {arm.info.loop: arm.summary.accuracy for arm in results(folder / "run").comparison.arms}
    return {loop: mean.value for loop, mean in found.items() if mean is not None}


def test_the_other_model_solves_what_it_does_not_spoil(tmp_path: Path) -> None:
    assert accuracies(OTHER.Temper("careful"), tmp_path / "good") == dict.fromkeys(VALIDITY.LOOPS, 1.0)
    assert sum(accuracies(OTHER.Temper("hopeless", miscopies=1.0), tmp_path / "bad").values()) < 2.5


def test_every_row_of_the_table_is_there() -> None:
    table = block(VALIDITY.PAGE, "validity")
    for under in (*(f"`{profile}`" for profile in VALIDITY.PROFILES), *(f"the other policy, {one.name}" for one in OTHER.TEMPERS)):
        assert f"\n| {under} | " in table
    assert f"{VALIDITY.TASKS} tasks" in table
