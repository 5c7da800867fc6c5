"""Totals of tokens that are not the sum of input and output: what a model wrote by reasoning may stand in the total only."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.experiments.import_runs.values import usage_in, with_total
from whichloop.metrics.summary import METRICS

counts = st.integers(0, 10**9)


@given(counts, counts, st.one_of(st.none(), counts))
def test_the_larger_one_of_total_and_sum_is_counted(asked, wrote, total):
    found = with_total(asked, wrote, total)
    assert found.input == asked
    assert found.input + found.output == max(asked + wrote, total or 0)
    assert usage_in({"prompt_tokens": asked, "completion_tokens": wrote, "total_tokens": total}) == found
    assert usage_in({"input_tokens": asked, "total_tokens": total}) is None


@given(st.lists(st.tuples(counts, counts, counts), min_size=1, max_size=4))
@settings(max_examples=cases(8))
def test_a_table_counts_the_larger_number(kit, rows):
    lines = [f"t{number},1,{asked},{wrote},{total}" for number, (asked, wrote, total) in enumerate(rows)]
    path = kit.put("\n".join(["task,score,prompt_tokens,completion_tokens,total_tokens", *lines]), ".csv")
    made = import_files([path], ImportRequest(), kit.folder / f"told{next(kit.numbers)}")
    records = results(made.folder).records
    assert [METRICS["tokens"](record) for record in records] == [max(asked + wrote, total) for asked, wrote, total in rows]
    assert [record.input_tokens for record in records] == [asked for asked, _, _ in rows]
