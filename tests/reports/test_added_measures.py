"""A measure that somebody adds is a column of `run.trials`, whether a run is read by its kinds of trials or trial by trial."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from hypothesis import given, settings

from tests.cases import cases
from tests.reports.test_dataframes import loaded, runs
from whichloop.metrics import summary
from whichloop.metrics.measures import Measure
from whichloop.metrics.record import Record
from whichloop.metrics.summary import MAX_VALUE, METRICS
from whichloop.protocol import render_value
from whichloop.reports import dataframes

Value = Callable[[Record], float | None]

VALUES: dict[str, Value] = {
    "step_share": lambda record: record.steps / 10,
    "even_seed": lambda record: float(record.seed % 2),  # a field of the trial's own, which kinds of trials lack
    "confident": lambda record: record.confidence,
    "beyond": lambda _: MAX_VALUE,
}


def add(patch: pytest.MonkeyPatch, values: dict[str, Value]) -> None:
    added = {name: Measure(value, "", in_trials=True, name=name, label=name) for name, value in values.items()}
    for module in (summary, dataframes):
        patch.setattr(module, "METRICS", {**METRICS, **added})


@pytest.mark.parametrize("names", [["step_share"], ["confident", "beyond"], ["step_share", "even_seed"]])
@settings(max_examples=cases(4))
@given(drawn=runs())
def test_an_added_measure_is_a_column_of_trials(names, drawn):
    arms, found = drawn
    with pytest.MonkeyPatch.context() as patch:
        add(patch, {name: VALUES[name] for name in names})
        trials = loaded(arms, found).trials
    records = {render_value(record.name): record for record in found}
    assert set(names) <= set(trials.columns)
    for name in names:
        assert trials[name].dtype == "float64"
        for trial, value in zip(trials["trial"], trials[name], strict=True):
            record = records[trial]
            right = VALUES[name](record) if record.status == "scored" and name != "beyond" else None
            assert pd.isna(value) if right is None else value == right


def test_a_measure_with_the_name_of_a_column_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, {"repeated_calls": lambda _: 7.0})
    record = Record("a", "s", "d", "t1", 0, 0, "scored", scores={"accuracy": 1.0}, repeated_calls=4)
    trials = loaded(["a"], [record]).trials
    assert trials["repeated_calls"].tolist() == [4]
    assert str(trials["repeated_calls"].dtype) == "int64"
