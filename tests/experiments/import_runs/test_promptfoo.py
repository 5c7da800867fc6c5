"""Results of promptfoo as it writes them: failed assertions are wrong answers, failed requests are none."""

from __future__ import annotations

import json

import pytest

from whichloop.experiments.import_runs import ImportRequest
from whichloop.experiments.import_runs.importing import read_file


def row(provider, test, reason=0, *, prompt="p", **more):
    """A row of version 3. `reason`: 0 none, 1 an assertion failed, 2 the request did; both stand in `error`."""
    case = {"description": f"case {test}", "vars": {"n": test}, "assert": [{"type": "contains", "value": "x"}]}
    failed = reason == 2
    return {
        **{"promptIdx": 0, "testIdx": test, "provider": {"id": provider, "label": ""}, "prompt": {"raw": "{{n}}", "label": prompt}},
        **{"success": reason == 0, "score": [1, 0.5, 0][reason], "failureReason": reason, "vars": case["vars"], "testCase": case},
        **{
            "namedScores": {"tone": 0.25},
            "gradingResult": None if failed else {"pass": reason == 0},
            "latencyMs": 800,
            "cost": 0.001,
        },
        "response": {"error": "429"} if failed else {"output": "x"},
        "tokenUsage": {"total": 0, "prompt": 0, "completion": 0} if failed else {"total": 30, "prompt": 20, "completion": 10},
        **({"error": "429 Too Many Requests" if failed else "Expected x"} if reason else {}),
        **more,
    }


def results(*rows):
    return {"evalId": "e", "results": {"version": 3, "results": list(rows), "stats": {"successes": 1}}, "config": {}}


ROWS = [
    row(provider, test, reason) for provider in ("one", "two") for test, reason in enumerate((0, 1, 2 if provider == "two" else 0))
]


@pytest.mark.parametrize("form", ["json", "lines"])
def test_what_promptfoo_writes_is_taken_as_it_is(kit, form):
    path = kit.put("\n".join(map(json.dumps, ROWS)), ".jsonl") if form == "lines" else kit.put(results(*ROWS))
    records = kit.imported(path).records
    told = {(record.arm, record.task): (record.status, record.scores.get("accuracy"), record.input_tokens) for record in records}
    assert told == {
        ("one", "case 0"): ("scored", 1, 20),
        ("one", "case 1"): ("scored", 0, 20),
        ("one", "case 2"): ("scored", 1, 20),
        ("two", "case 0"): ("scored", 1, 20),
        ("two", "case 1"): ("scored", 0, 20),
        ("two", "case 2"): ("errored", None, 0),
    }
    failed = records[-1]
    assert (failed.reason, failed.stop, "input_tokens" in failed.unknown) == ("429 Too Many Requests", "crashed", True)
    assert (records[0].seconds, records[0].cost_usd, records[0].answer, records[0].scores["tone"]) == (0.8, 0.001, "x", 0.25)


def test_rows_of_earlier_versions_tell_a_failed_request_by_its_response(kit):
    old = [{key: item for key, item in one.items() if key not in ("failureReason", "testCase", "testIdx")} for one in ROWS]
    for one in old:
        one["provider"] = one["provider"]["id"]
    records = kit.imported(kit.put(results(*old))).records
    told = {(record.arm, record.task): record.status for record in records}
    assert {key for key, status in told.items() if status == "errored"} == {("two", "2")}
    assert {task for _, task in told} == {"0", "1", "2"}


def test_scorers_places_prompts_and_repeats(kit):
    path = kit.put(results(*ROWS))
    assert {record.accuracy for record in kit.imported(path, scorer="score").records if record.task == "case 1"} == {0.5}
    named = {"arm": "provider.id", "tokens": "tokenUsage.total", "task": "testIdx"}
    record = kit.imported(path, scorer="success", columns=named).records[0]
    assert (record.arm, record.task, record.input_tokens + record.output_tokens) == ("one", "0", 30)
    with pytest.raises(ValueError, match="row 1: no score 'style'; there are success, score, tone"):
        kit.imported(path, scorer="style")
    twice = [row("one", test, prompt=prompt) for prompt in ("short", "long") for test in (0, 0, 1)]
    log = read_file(kit.put(results(*twice)), ImportRequest())
    assert {(trial.arm, trial.task, trial.repeat) for trial in log.trials} == {
        (f"one {prompt}", f"case {test}", repeat) for prompt in ("short", "long") for test, repeat in ((0, 0), (0, 1), (1, 0))
    }
    same = [row("one", test, testCase={"description": "same", "vars": {"n": test}}) for test in (0, 1)]
    assert [record.task for record in kit.imported(kit.put(results(*same))).records] == ["0", "1"]
