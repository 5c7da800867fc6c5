"""What loops do with calls that are made at once: in the figures, the table, the page, the JSON and the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whichloop.runs.built_in import loop_names

DESIGNS = ("bare", "finish", "finish(parallel_tools=true)", "phased", "react_extract", "stateless")
PARALLEL = "stateless(execution_mode=parallel)"
ARRIVAL = "tests.models.arrival_loop:ByArrival"


@pytest.fixture
def profile(here):
    def write(kind: str) -> str:
        path = Path(f"{kind.partition('.')[2].replace('_', '-')}.toml")
        path.write_text(f'name = "{path.stem}"\n[rates]\n"{kind}" = 1.0\n')
        return str(path)

    return write


def loops(*names):
    return [word for name in names for word in ("--loop", name)]


def figures(arm):
    return {name: None if arm[name] is None else arm[name]["value"] for name in FIGURES}


FIGURES = ("calls_lost", "calls_doubled", "results_mispaired", "calls_overlapped")
COMMON = ("-q", "--json")


@pytest.mark.parametrize("suite", ["errands(size=3)", "repairs(size=3)"])
def test_in_clean_air_no_design_loses_or_doubles_a_call(suite, whichloop, here):
    assert {name.partition("(")[0] for name in DESIGNS} <= set(loop_names())
    run = whichloop("compare", *COMMON, "--profile", "clean", "--suite", suite, *loops(*DESIGNS, PARALLEL)).json
    for arm in run["arms"]:
        found = figures(arm)
        assert (found["calls_lost"], found["calls_doubled"]) == (0, 0), arm["arm"]
        assert found["results_mispaired"] in (0, None), arm["arm"]
        assert found["calls_overlapped"] is None, arm["arm"]
        assert arm["accuracy"]["value"] == 1, arm["arm"]


def test_calls_made_too_early_are_wrong_where_they_run_at_once(whichloop, here, profile):
    run = whichloop("compare", *COMMON, "--suite", "errands(size=4)", *loops(*DESIGNS, PARALLEL), "--profile",
                    profile("calls.too_early")).json  # fmt: skip
    for arm in run["arms"]:
        overlapped = figures(arm)["calls_overlapped"]
        if "parallel" in arm["arm"]:
            assert overlapped == 1, arm["arm"]
            assert arm["accuracy"]["value"] < 0.3, arm["arm"]
            assert arm["faults"]["recovered"] < arm["faults"]["landed"]
        else:
            assert overlapped in (0, None), arm["arm"]  # one after the other: no overlap
            assert arm["accuracy"]["value"] == 1, arm["arm"]
        assert (overlapped is None) is (arm["loop"] in ("bare", "react_extract", "phased")), arm["arm"]
    told = " ".join(whichloop("report", "--why", "latest", "--arm", "finish", "--arm", "finish(parallel_tools=true)").out.split())
    assert "a call stood in one reply with those whose effect it needs (calls.too_early), and ran before they were done" in told


@pytest.mark.parametrize("kind", ["calls.late", pytest.param("calls.same_ids", marks=pytest.mark.slow)])
def test_order_and_ids_do_no_harm_to_a_loop_that_gives_each_result_for_its_call(kind, whichloop, here, profile):
    arms = (*DESIGNS, PARALLEL, f"{ARRIVAL}(by_arrival=false)")
    run = whichloop("compare", *COMMON, "--suite", "errands(size=4)", *loops(*arms), "--profile", profile(kind)).json
    for arm in run["arms"]:
        found = figures(arm)
        assert (found["calls_lost"], found["calls_doubled"], found["results_mispaired"] or 0) == (0, 0, 0), arm["arm"]
        assert arm["accuracy"]["value"] == 1, arm["arm"]
    landed = {arm["loop"]: arm["faults"]["landed"] for arm in run["arms"]}
    assert landed["finish"] > 0
    assert (landed["bare"] > 0) is (kind == "calls.late")  # a reply of one call, in text, has no ids


@pytest.mark.slow
def test_loops_that_mix_up_drop_or_repeat_calls_show_in_the_table_the_page_the_json_and_the_gate(whichloop, here, profile):
    late = ("--suite", "errands(size=10)", "--profile", profile("calls.late"))
    right = f"{ARRIVAL}(by_arrival=false)"
    wrong = (ARRIVAL, f"{ARRIVAL}(by_arrival=false, drops=true)", f"{ARRIVAL}(by_arrival=false, runs=2)")
    run = whichloop("compare", *COMMON, *late, *loops(right, *wrong)).json
    fine, mixed, dropped, repeated = (figures(arm) for arm in run["arms"])
    assert (fine["calls_lost"], fine["calls_doubled"], fine["results_mispaired"]) == (0, 0, 0)
    assert mixed["results_mispaired"] > 0.3
    assert dropped["calls_lost"] > 0.2
    assert dropped["calls_doubled"] == 0  # what the model no longer sees it asks for again itself
    assert repeated["calls_doubled"] > 0.9
    accuracies = [arm["accuracy"]["value"] for arm in run["arms"]]
    assert accuracies[0] == 1
    assert max(accuracies[1:]) < 0.7  # the model believes what it is told, and the end state has what was done twice
    verdicts = {(pair["a"], pair["metric"]): pair["verdict"] for pair in run["pairs"] if pair["b"] == run["arms"][1]["arm"]}
    assert verdicts[run["arms"][0]["arm"], "results_mispaired"] == "better"

    assert "Calls:" not in whichloop("report", "latest").out
    assert "results paired with the wrong call" in whichloop("report", "latest", "--all-metrics").out
    assert "Calls: what becomes of those that the model makes" in next(here.glob("runs/*/report.html")).read_text()

    quiet = COMMON[:-1]
    whichloop("compare", *quiet, *late, *loops(right))
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0
    whichloop("compare", *quiet, *late, *loops(wrong[2]))
    judged = whichloop("gate", "--baseline", "baseline.json", "latest", "--json", "--metric", "calls_doubled")
    assert judged.code in (1, 4)
    lines = {line["metric"]: line for line in json.loads(judged.out)["lines"]}
    assert (lines["calls_doubled"]["result"], lines["calls_doubled"]["margin"]) == ("regression", 0.02)
