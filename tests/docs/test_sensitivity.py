"""How much hangs on a profile's numbers: each variant differs in one number, and the page holds what its command writes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from whichloop.models.profiles import load_profile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sensitivity() -> ModuleType:
    return load_benchmark("sensitivity")


def test_every_number_is_varied_up_and_down(sensitivity: ModuleType) -> None:
    for name in sensitivity.PROFILES:
        profile = load_profile(name)
        varied = list(sensitivity.variants(profile))
        assert varied[0].profile == profile
        assert all(each.profile != profile for each in varied[1:])
        assert {each.number for each in varied[1:]} >= set(sensitivity.numbers(profile)) - {"patience"}
        for kind, rate in profile.rates.items():
            found = {v.factor: v.profile.rates for v in varied if v.number == f"rates.{kind}"}
            assert {factor: rates[kind] for factor, rates in found.items()} == pytest.approx(
                {factor: rate * times for factor, times in sensitivity.FACTORS.items()}
            )
            assert all({**rates, kind: rate} == profile.rates for rates in found.values())
        for each in varied:
            clears = each.profile.clears
            assert clears.nothing <= clears.failed <= clears.words


def test_the_tables_on_the_page_name_profiles_and_designs_that_there_are(sensitivity: ModuleType) -> None:
    text = (ROOT / "docs" / "sensitivity.md").read_text(encoding="utf-8")
    assert all(block(sensitivity.PAGE, name).strip() for name in ("sensitivity", "rewordings"))
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert rows
    assert {row[1] for row in rows} == set(sensitivity.PROFILES)


def test_no_innocent_rewording_moves_a_design_and_hidden_errors_cost(sensitivity: ModuleType) -> None:
    lines = [line for line in block(sensitivity.PAGE, "rewordings").splitlines() if line.startswith("| ")]
    (how, *innocent), words, everything = (line.strip("| ").split(" | ") for line in lines[1:])
    assert how == f"{len(sensitivity.HOWS)} rewordings, the largest change"
    assert all(abs(float(change)) <= 0.03 for change in innocent)
    assert max(sum(map(float, hidden[1:])) for hidden in (words, everything)) < -0.1
