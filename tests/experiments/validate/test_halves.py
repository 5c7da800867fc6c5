"""The tasks of a run in two halves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.validate.prediction import halves

UNITS = st.dictionaries(st.text(max_size=6), st.sampled_from("abcdefgh"), min_size=2).filter(
    lambda units: len({*units.values()}) > 1
)


@given(units=UNITS, seed=st.integers(0, 9))
def test_halves_are_a_partition_that_keeps_units_together(units: dict[str, str], seed: int) -> None:
    fitted, held_out = halves(units, seed)
    assert sorted((*fitted, *held_out)) == sorted(units)
    assert not {units[task] for task in fitted} & {units[task] for task in held_out}
    assert 0 <= len({units[task] for task in held_out}) - len({units[task] for task in fitted}) <= 1


@given(units=UNITS, seed=st.integers(0, 9), order=st.randoms())
def test_halves_hang_on_names_and_seed_alone(units: dict[str, str], seed: int, order) -> None:
    shuffled = list(units.items())
    order.shuffle(shuffled)
    assert halves(dict(shuffled), seed) == halves(units, seed)


def test_another_seed_is_another_split() -> None:
    units = {f"t{n}": f"t{n}" for n in range(20)}
    assert len({halves(units, seed) for seed in range(5)}) == 5


def test_one_unit_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="two independent tasks or more"):
        halves({"a": "x", "b": "x"}, 0)
