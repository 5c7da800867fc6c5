"""The sources and calculators of a farming region, and stories that need several of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import agriculture
from whichloop.datasets.agriculture import region as sources
from whichloop.datasets.agriculture.region import Region
from whichloop.datasets.agriculture.season import SCORER, SeasonStory
from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite, Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.protocol import Toolbox, ToolCall, resolve, run_sync

few = settings(max_examples=cases(12), deadline=None)
amounts = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))
positive = st.floats(0.1, 900).map(lambda number: round(number, 3))


def season_of(key: object) -> SeasonStory:
    story = SeasonStory(Draw("test", key))
    story.draw_season()
    return story


region = Region(season_of(0).region)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return agriculture.load()


# The suite


def answered(task: Task, suite: Suite, careless: bool) -> dict[str, float]:
    """The scores of the plan; `careless`: numbers are taken as they are wherever a unit should be converted."""
    assert task.plan is not None
    toolbox = Toolbox(suite.open(task).tools)
    results: dict[str, Any] = {}
    for planned in task.plan.calls:
        arguments = resolve(planned.arguments, results)
        seen = run_sync(toolbox.call(ToolCall(planned.tool, arguments)))
        is_left_out = careless and planned.tool == "convert_units"
        results[planned.id] = {"values": arguments["values"]} if is_left_out else seen.value
    return scores_of(Judgement(task, resolve(task.plan.answer, results), "finished"))


def test_units_matter(suite: Suite) -> None:
    converting = [task for task in suite.tasks if task.plan and any(made.tool == "convert_units" for made in task.plan.calls)]
    assert len(converting) > 70
    converting = converting[::3]
    assert all(answered(task, suite, careless=False)["accuracy"] == 1 for task in converting)
    passed = [task.labels["template"] for task in converting if answered(task, suite, careless=True)["accuracy"]]
    assert set(passed) <= {"calm_field", "rain_range", "drier_field"}  # there a conversion may concern what is not chosen
    assert len(passed) < len(converting) / 5


def test_the_tolerance_forgives_rounding_and_no_more(suite: Suite) -> None:
    for task in suite.tasks:
        if task.expected is None:
            continue
        assert task.scorer == SCORER
        for factor, right in ((1, 1), (1.001, 1), (0.999, 1), (1.01, 0), (0.99, 0), (-1, 0)):
            said = f"{task.expected * factor:.10g}"
            assert scores_of(Judgement(task, said, "finished"))["accuracy"] == right, said


# The sources


def test_a_station_that_missed_a_day_tells_the_other_days() -> None:
    season = season_of(5)
    name = next(iter(season.region["stations"]))
    season.lose_reading(name, "rain", 0)
    broken = Region(season.region)
    with pytest.raises(sources.NoReadings, match=f"{name} has no rain readings"):
        sources.weather(broken, name, "rain", season.day(0), season.day(2))
    assert len(sources.weather(broken, name, "rain", season.day(1), season.day(2))["values"]) == 2
    assert len(sources.weather(broken, name, "high", season.day(0), season.day(2))["values"]) == 3


# The calculators


@few
@given(
    values=st.lists(amounts, min_size=1, max_size=8),
    units=st.sampled_from(
        [("F", "C"), ("inch", "mm"), ("mph", "m/s"), ("acre", "hectare"), ("lb", "tonne"), ("1000 gallons", "m3")]
    ),
)
def test_a_conversion_and_its_reverse_give_the_numbers_back(values: list[float], units: tuple[str, str]) -> None:
    there = sources.convert_units(region, values, *units)["values"]
    back = sources.convert_units(region, there, *reversed(units))["values"]
    assert back == pytest.approx(values, rel=1e-9, abs=1e-6)


@few
@given(days=st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 20)), min_size=2, max_size=10), base=st.integers(0, 12))
def test_degree_days_add_up_and_never_fall(days: list[tuple[int, int]], base: int) -> None:
    highs, lows = [float(low + more) for low, more in days], [float(low) for low, _ in days]

    def gathered(part: slice, base: float) -> float:
        told: float = sources.growing_degree_days(region, highs[part], lows[part], base)["growing_degree_days"]
        return told

    whole = slice(None)
    assert gathered(slice(1), base) + gathered(slice(1, None), base) == gathered(whole, base) >= 0
    assert gathered(whole, base + 1) <= gathered(whole, base)
    assert gathered(whole, 50) == 0


@few
@given(et0=st.lists(positive, min_size=1, max_size=6), kc=positive, rain=positive, hectares=positive)
def test_rain_saves_irrigation_and_area_multiplies_it(et0: list[float], kc: float, rain: float, hectares: float) -> None:
    dry = sources.irrigation_need(region, et0, kc, [0], hectares)
    wet = sources.irrigation_need(region, et0, kc, [rain], hectares)
    assert 0 <= wet["net_mm"] < dry["net_mm"] == pytest.approx(kc * sum(et0))
    assert wet["cubic_metres"] == pytest.approx(wet["net_mm"] * 10 * hectares)
    assert wet["net_mm"] in (0, pytest.approx(dry["net_mm"] - 0.8 * rain, rel=1e-6, abs=1e-6))


@few
@given(needed=positive, present=positive, percent=st.floats(1, 100), hectares=positive)
def test_fertilizer_brings_a_field_to_what_it_needs(needed: float, present: float, percent: float, hectares: float) -> None:
    kilograms = sources.fertilizer_amount(region, needed, present, percent, hectares)["kg"]
    assert present + kilograms * percent / 100 / hectares == pytest.approx(max(needed, present))
