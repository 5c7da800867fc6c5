"""A loop that clears old results loses them, and its prompts change: the table, the page, the JSON and the gate say so."""

from __future__ import annotations

import json


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
