"""The matrix of an answer on terminals of all usual widths: no line is too wide, no word is broken, what has no room is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cases import cases
from whichloop.cli.render_matrix import matrix_lines
from whichloop.experiments.compare.verdict_old.answer import ComparisonAnswer, answer
from whichloop.experiments.compare.verdict_old.matrix import cost_text, counted_in
from whichloop.metrics.views import Unit

PROFILES = ("measured-2024", "measured-2024-median", "flaky-tools", "flaky-format")
LOOPS = ("bare", "bare(decision_format=native)", "finish", "stateless")
WHOLE = 10_000
"""Columns of a file or a pipe."""


@pytest.fixture(scope="module")
def priced(compared) -> Callable[..., ComparisonAnswer]:
    """Makes answers on so many loops under so many profiles, at costs in a unit."""

    @cache
    def whole(profiles: int) -> ComparisonAnswer:
        shares = {loop: [0.9 - 0.1 * n] * profiles for n, loop in enumerate(LOOPS)}
        found = answer(compared(shares, dict.fromkeys(shares, 12_345), n=20, profiles=PROFILES[:profiles]))
        return replace(found, rows=tuple(replace(row, cost=row.costs[0]) for row in found.rows))

    def make(loops: int, profiles: int, unit: Unit, *, is_apart: bool) -> ComparisonAnswer:
        found = whole(profiles)
        return replace(found, rows=found.rows[:loops], unit=unit, is_apart=is_apart and profiles > 1)

    return make


@settings(max_examples=cases(60))
@given(
    width=st.integers(60, 120),
    loops=st.integers(2, 4),
    profiles=st.integers(1, 4),
    unit=st.sampled_from(("tokens", "nominal_usd", "cost_usd")),
    is_apart=st.booleans(),
    room=st.integers(4, 11),
)
def test_a_matrix_fits_its_terminal_breaks_no_word_and_says_what_it_leaves_out(
    priced, width, loops, profiles, unit, is_apart, room
):
    found = priced(loops, profiles, unit, is_apart=is_apart)
    lines = [line.plain for line in matrix_lines(found, width, room)]
    assert max(map(cell_len, lines)) <= width
    note = " ".join(line for line in lines if line.startswith("No room here for "))
    cells = [line for line in lines if re.search(r"  0?\.\d", line)]
    heads = {word for line in lines[: lines.index(cells[0])] for word in line.split()} - set(LOOPS)
    whole = next(line.plain for line in matrix_lines(found, WHOLE, room))
    parts = re.split(r"\s+|(?<=-)", whole)
    ends = {"".join(parts[at:end]) for at in range(len(parts)) for end in range(at + 1, len(parts) + 1)}
    assert heads <= ends
    costs = [cost.value for cost in found.costs_of(found.rows[0]) if cost is not None]
    has_costs = any(f"  {cost_text(costs[0], unit)}" in line for line in cells)
    assert has_costs == (f"{counted_in(unit)} a trial" not in note)
    amounts = len(cells) * (profiles + (len(costs) if has_costs else 0))
    assert ("intervals" in note) == ("\n".join(cells).count("[") < amounts)


def test_heads_are_folded_at_spaces_and_intervals_that_have_no_room_are_told(priced):
    found = priced(3, 2, "nominal_usd", is_apart=True)
    lines = [line.plain for line in matrix_lines(found, 80, 11)]
    assert [line.split() for line in lines[:2]] == [
        ["loop", "measured-2024", "USD", "measured-2024-", "USD"],
        ["uncached", "median", "uncached"],
    ]
    assert lines[-1] == "No room here for intervals of USD uncached: -v and the page show them"


@pytest.mark.parametrize("unit", ["tokens", "nominal_usd"])
def test_costs_without_room_are_told_in_a_line_with_the_intervals(priced, unit):
    found = priced(3, 4, unit, is_apart=True)
    lines = [line.plain for line in matrix_lines(found, 80, 4)]
    assert f"No room here for {counted_in(unit)} a trial and intervals: -v and the page show them" in lines
