"""Loops that differ in their options alone are rows of their own in every table that has a column `loop`."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whichloop
from whichloop.experiments.compare.tables import arms_csv
from whichloop.metrics.arm_info import ArmInfo

LOOPS = ("finish", "finish(parse_retries=0)", "provider_retry(loop=bare)")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> whichloop.Loaded:
    profiles = ("flaky-format", "flaky-tools")
    return whichloop.compare(LOOPS, "arithmetic(size=6)", profiles, runs=tmp_path_factory.mktemp("runs"), mlflow=False)


def test_tables_name_loops_as_the_verdict_does(run):
    rows = run.verdict.rows
    assert {row.loop for row in rows} == set(LOOPS)
    for frame in (run.trials, run.arms, pd.read_csv(io.StringIO(arms_csv(run.comparison)))):
        assert set(frame["loop"]) == set(LOOPS)
        assert set(frame["base_loop"]) == {"finish", "provider_retry"}
    means = run.trials.groupby("loop")["accuracy"].mean()
    assert {row.loop: row.accuracy for row in rows} == pytest.approx(means.to_dict())


NAMES = st.from_regex(r"[a-z]{1,6}(\([a-z]=[0-9]\))?", fullmatch=True)


@given(NAMES, st.sampled_from(["scripted", "openai/gpt-4o-mini"]), st.sampled_from(["clean", "calm/own"]))
def test_a_variant_has_neither_profile_nor_model_in_its_name(loop, model, profile):
    arm = f"{loop}/{profile if model == 'scripted' else model}"
    assert ArmInfo(arm, loop.partition("(")[0], {}, model, profile, "s").variant == loop
