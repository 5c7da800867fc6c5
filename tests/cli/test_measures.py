"""Figures of context, calls made at once, injection, and of loops against models: in table, page, JSON and gate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from whichloop import load
from whichloop.protocol.receipts import instructions_in
from whichloop.runs.built_in import loop_names


def test_a_loop_that_drops_results_shows_in_the_table_the_page_the_json_and_the_gate(whichloop, here):
    common = ["--profile", "clean", "-q", "--suite", "arithmetic(size=12)"]
    run = whichloop("compare", *common, "--loop", "bare", "--loop", "microcompact(loop=bare, keep=1)", "--json").json
    bare, compact = run["arms"]
    assert bare["retention"]["value"] == 1.0
    assert compact["retention"]["value"] < 0.9
    assert compact["retention_at"]["1"]["value"] == 1.0
    assert compact["retention_at"]["2"]["value"] < bare["retention_at"]["2"]["value"]
    assert bare["tokens_with_cache"]["value"] <= bare["tokens"]["value"]
    verdicts = {pair["metric"]: pair["verdict"] for pair in run["pairs"]}
    assert verdicts["retention"] == "better"

    assert "Context:" not in whichloop("report", "latest").out
    for shown in (whichloop("report", "latest", "-v").out, next(here.glob("runs/*/report.html")).read_text()):
        assert "Context: results still shown when needed" in shown

    whichloop("compare", *common, "--loop", "bare")
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0
    whichloop("compare", *common, "--loop", "microcompact(loop=bare, keep=1)")
    held = ("--metric", "retention", "--metric", "prefix_stability=0.05")
    judged = whichloop("gate", "--baseline", "baseline.json", "latest", "--json", *held)
    assert judged.code == 1
    lines = {line["metric"]: line for line in json.loads(judged.out)["lines"]}
    assert not any(lines[name]["ratio"] for name in ("accuracy", "retention", "prefix_stability"))
    assert (lines["retention"]["result"], lines["retention"]["margin"]) == ("regression", 0.02)
    refused = whichloop("gate", "--baseline", "baseline.json", "latest", "--metric", "retention=1.5")
    assert (refused.code, refused.err) == (2, "error: metric retention: a margin of 0 or more is needed, below 1, got 1.5\n")


def test_an_imported_table_of_loops_and_models_says_how_much_each_moves_accuracy(whichloop, here):
    rows = ["arm,task,score"]
    for loop, easy in (("careful", 9), ("hasty", 3)):
        for model, more in (("gpt", 0), ("claude", 1)):
            rows += [f"{loop}/{model},t{task},{int(task % 10 < easy + more)}" for task in range(60)]
    (here / "table.csv").write_text("\n".join(rows) + "\n")
    assert whichloop("import", "table.csv").code == 0
    (found,) = whichloop("report", "latest", "--json").json["harness"]
    assert (found["kind"], found["loops_reverse"]) == ("model", 0.0)
    assert {part["source"] for part in found["parts"]} >= {"loop", "model", "task", "loop × model"}
    assert "How much is the loop, how much the model" in next(here.glob("runs/*/report.html")).read_text()


DESIGNS = ("bare", "finish", "finish(parallel_tools=true)", "phased", "react_extract", "stateless")
PARALLEL = "stateless(execution_mode=parallel)"
ARRIVAL = "tests.models.arrival_loop:ByArrival"


@pytest.fixture
def profile_of(here):
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
QUIET_JSON = ("-q", "--json")


@pytest.mark.parametrize("suite", ["errands(size=3)", "repairs(size=3)"])
def test_in_clean_air_no_design_loses_or_doubles_a_call(suite, whichloop, here):
    assert {name.partition("(")[0] for name in DESIGNS} <= set(loop_names())
    run = whichloop("compare", *QUIET_JSON, "--profile", "clean", "--suite", suite, *loops(*DESIGNS, PARALLEL)).json
    for arm in run["arms"]:
        found = figures(arm)
        assert (found["calls_lost"], found["calls_doubled"]) == (0, 0), arm["arm"]
        assert found["results_mispaired"] in (0, None), arm["arm"]
        assert found["calls_overlapped"] is None, arm["arm"]
        assert arm["accuracy"]["value"] == 1, arm["arm"]


def test_calls_made_too_early_are_wrong_where_they_run_at_once(whichloop, here, profile_of):
    run = whichloop("compare", *QUIET_JSON, "--suite", "errands(size=4)", *loops(*DESIGNS, PARALLEL), "--profile",
                    profile_of("calls.too_early")).json  # fmt: skip
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
def test_order_and_ids_do_no_harm_to_a_loop_that_gives_each_result_for_its_call(kind, whichloop, here, profile_of):
    arms = (*DESIGNS, PARALLEL, f"{ARRIVAL}(by_arrival=false)")
    run = whichloop("compare", *QUIET_JSON, "--suite", "errands(size=4)", *loops(*arms), "--profile", profile_of(kind)).json
    for arm in run["arms"]:
        found = figures(arm)
        assert (found["calls_lost"], found["calls_doubled"], found["results_mispaired"] or 0) == (0, 0, 0), arm["arm"]
        assert arm["accuracy"]["value"] == 1, arm["arm"]
    landed = {arm["loop"]: arm["faults"]["landed"] for arm in run["arms"]}
    assert landed["finish"] > 0
    assert (landed["bare"] > 0) is (kind == "calls.late")  # a reply of one call, in text, has no ids


@pytest.mark.slow
def test_loops_that_mix_up_drop_or_repeat_calls_show_in_the_table_the_page_the_json_and_the_gate(whichloop, here, profile_of):
    late = ("--suite", "errands(size=10)", "--profile", profile_of("calls.late"))
    right = f"{ARRIVAL}(by_arrival=false)"
    wrong = (ARRIVAL, f"{ARRIVAL}(by_arrival=false, drops=true)", f"{ARRIVAL}(by_arrival=false, runs=2)")
    run = whichloop("compare", *QUIET_JSON, *late, *loops(right, *wrong)).json
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

    quiet = QUIET_JSON[:-1]
    whichloop("compare", *quiet, *late, *loops(right))
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0
    whichloop("compare", *quiet, *late, *loops(wrong[2]))
    judged = whichloop("gate", "--baseline", "baseline.json", "latest", "--json", "--metric", "calls_doubled")
    assert judged.code in (1, 4)
    lines = {line["metric"]: line for line in json.loads(judged.out)["lines"]}
    assert (lines["calls_doubled"]["result"], lines["calls_doubled"]["margin"]) == ("regression", 0.02)


NAMES = ("injection_shown", "injection_attempted", "injection_executed", "answer_changed", "utility_kept")
COMMON = ("-q", "--suite", "arithmetic(size=20)", "--loop", "bare", "--profile", "clean", "--profile", "injected")


def test_the_figures_are_in_the_json_the_table_the_page_and_data_frames(whichloop, here):
    made = whichloop("compare", *COMMON, "--json").json
    clean, injected = made["arms"]
    told = made["answer"]
    assert (told["outcome"], [row["loop"] for row in told["rows"]]) == (None, ["bare"])  # a single loop
    assert [clean[name] for name in NAMES] == [None] * 5
    shares = [injected[name]["value"] for name in NAMES[:4]]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert 0 < injected["answer_changed"]["value"] < injected["injection_executed"]["value"] < 1
    assert {injected[name]["n"] for name in NAMES} == {injected["utility_kept"]["n"]} != {20}

    assert "Injection:" not in whichloop("report", "latest").out
    folder, title = next(here.glob("runs/*")), "Injection: shares of the trials"
    assert title in whichloop("report", "latest", "-v").out
    assert title in (folder / "report.html").read_text()

    tasks = load(folder).tasks
    assert tasks.loc[tasks["arm"] == "bare/clean", list(NAMES)].isna().all(axis=None)
    found = tasks.loc[tasks["arm"] == "bare/injected", "injection_executed"].dropna()
    assert found.mean() == pytest.approx(injected["injection_executed"]["value"])


def test_an_obeyed_instruction_is_shown_whole_and_a_defence_is_named(whichloop, here):
    assert " injected" in whichloop("compare", *COMMON).out.splitlines()[1]
    explained = whichloop("report", "--why").out  # of the latest run
    assert "whichloop compare --loop 'guarded(loop=bare)' --vary results=marked,plain --vary tools=all,needed" in explained
    (trial,) = re.findall(r"^obeyed instruction +step .*\nshow +whichloop show \S+ (\S+)$", explained, re.MULTILINE)
    events = whichloop("show", "latest", trial, "--json").json["events"]
    carried = [text for event in events if event.get("fault", "").startswith("inject.") for text in instructions_in(event["data"])]
    shown = re.findall(r"^ +it carried: (.*)$", whichloop("show", "latest", trial).out, re.MULTILINE)
    assert shown == carried
    assert shown
    assert all(text.startswith("Instruction: ") for text in shown)
