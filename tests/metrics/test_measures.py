"""The table of measures: their order, and a row that somebody adds."""

from __future__ import annotations

import pytest

from whichloop.metrics import summary
from whichloop.metrics.measures import Measure, in_table_order
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, summarize


def test_an_added_measure_has_a_mean_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Measure(lambda record: record.repeated_calls, "Tool calls that were made before.", name="before", label="before")
    monkeypatch.setattr(summary, "METRICS", {**METRICS, "before": added})
    known, unknown = (record(repeated_calls=4, unknown=names) for names in ((), ("before",)))
    mean = summarize([known]).means["before"]
    assert mean is not None
    assert mean.value == 4
    assert summarize([unknown]).means["before"] is None


def record(repeated_calls: int, unknown: tuple[str, ...]) -> Record:
    return Record("a", "s", "d", "t1", 0, 0, "scored", repeated_calls=repeated_calls, unknown=unknown)


def test_measures_stand_in_tables_as_ever_and_money_last() -> None:
    ours = ["accuracy", "steps", "lm_calls", "tokens", "cost_usd", "nominal_usd", "seconds"]
    assert [name for name in METRICS if name in ours] == ours
    columns = [found.label for name, found in in_table_order(METRICS).items() if name in ours]
    assert columns == ["accuracy", "steps", "LM calls", "tokens", "seconds", "USD with cache", "USD uncached"]
