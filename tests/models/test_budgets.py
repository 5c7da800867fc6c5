"""What a budget refuses, and what it tells of replies whose price nobody knows."""

from __future__ import annotations

import pytest

from tests.models.test_metering import Echo, metered, spend
from whichloop.models.metering import Budget, Meter, MeteredModel
from whichloop.protocol import Usage, run_sync


def test_a_budget_of_dollars_warns_once_of_replies_without_a_price(caplog: pytest.LogCaptureFixture) -> None:
    whole = Meter(Budget(dollars=2.5))
    model = metered(Budget(calls=3), parent=whole, model=Echo(Usage(1, 1, cost_usd=None)))
    assert (whole.cost_usd, whole.unpriced) == (0.0, 0)
    run_sync(spend(model))
    assert (whole.cost_usd, model.meter.cost_usd, whole.dollars, whole.unpriced) == (None, None, 0.0, 3)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("the model does not say what a reply costs, so that the budget of 2.5 dollars does not count it")


def test_a_budget_and_a_meter_are_told_apart_and_no_limit_is_negative() -> None:
    with pytest.raises(TypeError, match=r"^meter: give a Meter, not Budget; Meter\(Budget\(tokens=50_000\)\) makes one"):
        MeteredModel(Echo(), Budget())  # type: ignore[arg-type]
    for name in ("calls", "tokens", "dollars", "seconds"):
        with pytest.raises(ValueError, match=f"^Budget: {name} must be 0 or more, or None for no limit, not -1$"):
            Budget(**{name: -1})
