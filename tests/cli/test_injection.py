"""Instructions in results: the table, the page, the JSON and data frames say how far they came; a recording says the same."""

from __future__ import annotations

import json
import re

import pytest

from whichloop import load
from whichloop.protocol.receipts import instructions_in

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


@pytest.mark.slow
def test_the_gate_holds_a_loop_to_its_exposure(whichloop, here):
    common = ("-q", "--suite", "arithmetic(size=50)", "--profile", "clean", "--profile", "injected")
    whichloop("compare", *common, "--loop", "guarded(loop=bare)")
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0
    whichloop("compare", *common, "--loop", "bare")
    held = ("--metric", "injection_executed", "--metric", "injection_shown=0.1", "--metric", "utility_kept=0.05")
    judged = whichloop("gate", "--baseline", "baseline.json", "latest", "--json", *held)
    assert judged.code == 1
    found = json.loads(judged.out)["lines"]
    lines = {line["metric"]: line for line in found}
    executed = lines["injection_executed"]
    assert (executed["result"], executed["margin"], executed["ratio"]) == ("regression", 0.02, False)
    assert executed["effect"]["low"] > 0
    assert lines["injection_shown"]["result"] == "pass"
    held_arms = {line["arm"] for line in found if line["metric"] in held[1]}
    assert held_arms == {"bare/injected"}  # where no result carries anything there is nothing to hold
    assert "+0.02" in whichloop("gate", "--baseline", "baseline.json", "latest", *held).out


@pytest.mark.slow
def test_a_defence_is_an_ablation(whichloop, here):
    factors = ("--vary", "results=plain,marked", "--vary", "tools=all,needed")
    asked = (
        "--suite",
        "arithmetic(size=20)",
        "--profile",
        "injected",
        "--metric",
        "injection_executed",
        "-q",
        "--json",
    )
    found = whichloop("compare", "--loop", "guarded(loop=bare)", *factors, *asked).json
    effects = {effect["term"]: effect for effect in found["effects"] if effect["metric"] == "injection_executed"}
    marked = effects["results: plain → marked"]
    assert marked["verdict"] == "better"
    assert marked["difference"]["value"] < 0
