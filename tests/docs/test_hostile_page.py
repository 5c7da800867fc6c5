"""The count of hostile replies in docs/loop-laws.md is what `python benchmarks/hostile_replies.py --write` has counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

HOSTILE = load_benchmark("hostile_replies")


def test_the_page_shows_the_count_so_far() -> None:
    counted = HOSTILE.Count.kept()
    assert block(HOSTILE.PAGE, "hostile").strip().splitlines() == [*counted.table()]
    assert counted.replies > 50_000
    assert all(sum(count.stops.values()) == count.runs for count in counted.designs.values())


@pytest.mark.thorough
def test_a_block_is_drawn_by_its_number_alone_and_every_run_ends_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HOSTILE, "RUNS", 3)
    (first, breaches), (again, _) = HOSTILE.block(7), HOSTILE.block(7)
    assert not breaches
    assert {count.runs for count in first.designs.values()} == {3}
    untimed = [[replace(count, slowest_s=0.0) for count in found.designs.values()] for found in (first, again)]
    assert untimed[0] == untimed[1]


def test_the_count_goes_on_where_it_was_interrupted(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HOSTILE, "STATE", tmp_path / "state.json")
    one = HOSTILE.DesignCount(10, 100, 2, {"finished": 2}, 0.5)
    HOSTILE.Count(3, 200, {"bare": one}).keep()
    more = HOSTILE.Count(4, 100, {"bare": HOSTILE.DesignCount(1, 1, 1, {"forced": 1}, 0.1)})
    both = HOSTILE.DesignCount(11, 101, 3, {"finished": 2, "forced": 1}, 0.5)
    assert HOSTILE.Count.kept() + more == HOSTILE.Count(4, 200, {"bare": both})


@pytest.mark.thorough
def test_a_run_that_raises_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raising:
        stops: frozenset[str] = frozenset()

        async def run(self, *args: object) -> None:
            raise AssertionError("whatever")

    monkeypatch.setattr(HOSTILE, "RUNS", 1)
    monkeypatch.setattr(HOSTILE, "loops", lambda design: (Raising(),))
    assert HOSTILE.block(0)[1][0] == "block 0, bare, run 0: AssertionError: whatever"
