"""The count of hostile replies in docs/loop-laws.md is what `python benchmarks/hostile_replies.py --write` has counted."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("hostile_replies")


def test_the_page_shows_the_count_so_far(hostile: ModuleType) -> None:
    assert [line for line in block(hostile.PAGE, "hostile").splitlines() if line] == [line for line in hostile.table() if line]
    _, designs, _ = hostile.known()
    assert sum(count.replies for count in designs.values()) > 50_000
    assert all(sum(count.stops.values()) == count.runs for count in designs.values())


@pytest.mark.thorough
def test_a_block_is_drawn_by_its_number_alone_and_every_run_ends_as_declared(
    hostile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "RUNS", 3)
    first, again = hostile.block(7), hostile.block(7)
    assert not first.breaches
    for design, count in first.designs.items():
        assert count.runs == 3
        assert (count.replies, count.characters, count.stops) == (
            again.designs[design].replies,
            again.designs[design].characters,
            again.designs[design].stops,
        )


def test_the_count_goes_on_where_it_was_interrupted(hostile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "STATE", tmp_path / "state.json")
    one = hostile.DesignCount(10, 100, 2, {"finished": 2}, 0.5)
    hostile.keep(3, {"bare": one}, 200)
    number, designs, peak = hostile.known()
    assert (number, designs, peak) == (3, {"bare": one}, 200)
    designs["bare"].add(hostile.DesignCount(1, 1, 1, {"forced": 1}, 0.1))
    assert designs["bare"] == hostile.DesignCount(11, 101, 3, {"finished": 2, "forced": 1}, 0.5)


@pytest.mark.thorough
def test_a_run_that_raises_is_named_with_its_place(hostile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Raising:
        stops: frozenset[str] = frozenset()

        async def run(self, *args: object) -> None:
            raise AssertionError("whatever")

    monkeypatch.setattr(hostile, "RUNS", 1)
    monkeypatch.setattr(hostile, "loops", lambda design: (Raising(),))
    assert hostile.block(0).breaches[0] == "block 0, bare, run 0: AssertionError: whatever"
