"""`import` and `export`, from other tools' files to the gate and back; figures of context, calls and injection in every medium."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from whichloop import load
from whichloop.protocol.receipts import instructions_in

TASKS = 60


def inspect_log(solver, solved, calls=2):
    """A log of Inspect; the first `solved` of its samples are."""
    call = {"event": "model", "output": {"usage": {"input_tokens": 100, "output_tokens": 10, "total_cost": 0.01}}}
    samples = [
        {
            "id": f"t{n}",
            "epoch": 1,
            "input": f"What is {n} + {n}?",
            "target": str(2 * n),
            "scores": {
                "match": {"value": "C" if n < solved else "I", "answer": str(2 * n if n < solved else n)},
                "style": {"value": 1},
            },
            "events": [call] * calls,
            "working_time": 1.5,
        }
        for n in range(TASKS)
    ]
    spec = {"task": "sums", "solver": solver, "model": "openai/gpt-4o-mini"}
    return {"version": 2, "status": "success", "eval": spec, "samples": samples}


def test_a_bound_on_trials_without_a_score_decides_the_exit_code(whichloop, here):
    rows = "".join(f"a,t{n},{'' if n == 0 else 1}\n" for n in range(100))
    (here / "t.csv").write_text(f"arm,task,score\n{rows}")
    for bound, code in (("0.01", 0), ("0.009", 4)):
        ended = whichloop("import", "t.csv", "--max-left-out", bound)
        assert ended.code == code
        assert "left out: 1 of 100 trials, errored: the score is blank" in ended.err
        assert ("1.0% of 100 trials have no score" in ended.err) == (code == 4)


@pytest.fixture
def monday(whichloop, here):
    """The JSON of two logs that were imported as the run `monday`; that of a worse day lies beside them."""
    logs = {"react": inspect_log("react", 50), "plan": inspect_log("plan", 20, calls=3), "worse": inspect_log("react", 15)}
    for name, log in logs.items():
        (here / f"{name}.json").write_text(json.dumps(log))
    return whichloop("import", "react.json", "plan.json", "--scorer", "match", "--name", "monday", "--json").json


def test_two_logs_are_compared_and_blessed_and_a_worse_one_fails_the_gate(monday, whichloop):
    react, plan = monday["arms"]
    assert (react["arm"], react["accuracy"]["value"]) == ("react/openai/gpt-4o-mini", pytest.approx(50 / TASKS))
    assert (react["lm_calls"]["value"], react["tokens"]["value"], plan["lm_calls"]["value"]) == (2, 220, 3)
    assert react["cost_usd"]["value"] == pytest.approx(0.02)
    assert (monday["wall_s"], monday["complete"]) == (None, True)
    (pair,) = [pair for pair in monday["pairs"] if pair["metric"] == "accuracy"]
    assert pair["verdict"] == "better"
    resumed = whichloop("resume", "monday")
    said = "error: runs/monday: imported from another tool's files, so there is nothing to run\n"
    assert (resumed.code, resumed.err) == (2, said)
    blessed = whichloop("gate", "monday", "--bless", "--output", "base.json")
    assert blessed.code == 0
    assert "seed" not in blessed.out + blessed.err
    same = whichloop("gate", "monday", "--baseline", "base.json")
    assert (same.code, "pass: identical" in same.out) == (0, True)
    whichloop("import", "worse.json", "plan.json", "--scorer", "match", "--name", "tuesday")
    worse = whichloop("gate", "tuesday", "--baseline", "base.json", "-v")
    assert (worse.code, "react/openai/gpt-4o-mini/t20" in worse.out) == (1, True)
    assert "35 worse" in worse.out
    alone = whichloop("gate", "--baseline", "base.json")
    assert (alone.code, alone.err.count("\n")) == (2, 1)
    assert "nothing to run" in alone.err


def test_arms_that_share_no_task_are_not_compared_and_the_exit_code_says_so(whichloop, here):
    (here / "a.csv").write_text("agent,id,score\na,run-1,1\na,run-2,0\nb,run-3,1\nb,run-4,0\n")
    ended = whichloop("import", "a.csv")
    assert ended.code == 4
    assert "nothing is compared: no task was scored in two arms (a: run-1, run-2; b: run-3, run-4)" in ended.err


def chats(case, *, tasks=6):
    """Rows with messages: their question may stand in a column, or be worded otherwise for each agent."""
    for n in range(tasks):
        for agent in ("careful", "hasty"):
            asked = f"What does item {n} cost?" + f" Be {agent}." * (case == "worded")
            messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "3"}]
            row = {"agent": agent, "task_id": f"order-{n}", "trial": 0, "messages": messages, "success": (n + len(agent)) % 3 > 0}
            yield row | ({"question": f"item {n}"} if case == "asked" else {})


def put(path, case, *, tasks=6):
    path.write_text("".join(json.dumps(row) + "\n" for row in chats(case, tasks=tasks)))


def suite_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["suite"], manifest["task_digests"]


@pytest.mark.parametrize(("case", "exported"), [("worded", "otlp"), ("asked", "atif"), ("scaled", "otlp")])
def test_a_gate_holds_an_import_against_its_own_export(whichloop, tmp_path, case, exported):
    scale = ["--scale", "1,0"] * (case == "scaled")
    put(tmp_path / "chat.jsonl", case)
    assert whichloop("import", "chat.jsonl", "--name", "first", *scale).code == 0
    assert whichloop("gate", "first", "--bless", "--output", "base.json").code == 0
    assert whichloop("export", "first", "--format", exported, "--output", "out.jsonl").code == 0
    assert whichloop("import", "out.jsonl", "--name", "again").code == 0
    assert suite_of(tmp_path / "runs" / "first") == suite_of(tmp_path / "runs" / "again")
    judged = whichloop("gate", "again", "--baseline", "base.json")
    assert judged.code == 0, judged.err
    assert "pass: identical" in judged.out
    both = whichloop("import", "chat.jsonl", "out.jsonl", *scale)
    assert "is there and in chat.jsonl; say whether they are two arms" in both.err  # not that a task asks something else


def test_a_run_is_exported_and_read_back(whichloop, here):
    whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=2)", "--profile", "flaky-tools")
    accuracy = whichloop("report", "latest", "--json").json["arms"][0]["accuracy"]
    for name, out in (("atif", "a"), ("otlp", "c d.log")):
        written = whichloop("export", "latest", "--format", name, "--output", out, "--runs", "runs")
        assert (written.code, written.out) == (0, "")
        said, _, command = written.err.strip().partition("; read them back: whichloop ")
        assert said == f"wrote 2 trials to {out}"
        back = whichloop(*shlex.split(command), "--runs", f"back {out}", "--name", "back", "--json").json
        assert back["arms"][0]["accuracy"] == accuracy


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


def test_calls_made_too_early_are_wrong_where_they_run_at_once(whichloop, here, profile_of):
    run = whichloop("compare", *QUIET_JSON, "--suite", "errands(size=3)", *loops(*DESIGNS, PARALLEL), "--profile",
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


def test_order_and_ids_do_no_harm_to_a_loop_that_gives_each_result_for_its_call(whichloop, here, profile_of):
    arms = (*DESIGNS, PARALLEL, f"{ARRIVAL}(by_arrival=false)")
    run = whichloop("compare", *QUIET_JSON, "--suite", "errands(size=3)", *loops(*arms), "--profile", profile_of("calls.late")).json
    for arm in run["arms"]:
        found = figures(arm)
        assert (found["calls_lost"], found["calls_doubled"], found["results_mispaired"] or 0) == (0, 0, 0), arm["arm"]
        assert arm["accuracy"]["value"] == 1, arm["arm"]
    assert all(arm["faults"]["landed"] > 0 for arm in run["arms"] if arm["loop"] in ("bare", "finish"))


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
