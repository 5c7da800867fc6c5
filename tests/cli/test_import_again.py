"""What was imported, exported and imported again is the same list of tasks for the gate, whatever format it was read from."""

from __future__ import annotations

import json

import pytest


def rows(case, *, tasks=6):
    """Rows with messages: their question may stand in a column, or be worded otherwise for each agent."""
    for n in range(tasks):
        for agent in ("careful", "hasty"):
            asked = f"What does item {n} cost?" + f" Be {agent}." * (case == "worded")
            messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "3"}]
            row = {"agent": agent, "task_id": f"order-{n}", "trial": 0, "messages": messages, "success": (n + len(agent)) % 3 > 0}
            yield row | ({"question": f"item {n}"} if case == "asked" else {})


def put(path, case, *, tasks=6):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(case, tasks=tasks)))


def suite_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["suite"], manifest["task_digests"]


@pytest.mark.parametrize(
    ("case", "exported"),
    [
        ("plain", "atif"),
        ("worded", "otlp"),
        ("asked", "atif"),
        ("scaled", "otlp"),
        pytest.param("plain", "otlp", marks=pytest.mark.slow),
        pytest.param("worded", "atif", marks=pytest.mark.slow),
        pytest.param("asked", "otlp", marks=pytest.mark.slow),
        pytest.param("scaled", "atif", marks=pytest.mark.slow),
    ],
)
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


def test_a_task_that_asks_something_else_is_still_told(whichloop, tmp_path):
    put(tmp_path / "chat.jsonl", "asked")
    whichloop("import", "chat.jsonl", "--name", "first")
    whichloop("gate", "first", "--bless", "--output", "base.json")
    (tmp_path / "chat.jsonl").write_text((tmp_path / "chat.jsonl").read_text().replace('"item 3"', '"item 33"'))
    whichloop("import", "chat.jsonl", "--name", "other")
    whichloop("export", "other", "--format", "atif", "--output", "out")
    whichloop("import", "out", "--name", "again")
    refused = whichloop("gate", "again", "--baseline", "base.json")
    assert refused.code == 3
    assert "1 changed, 0 added, 0 removed" in refused.out


def test_tasks_whose_traces_are_missing_are_told_as_removed(whichloop, tmp_path):
    put(tmp_path / "chat.jsonl", "plain")
    kept = (tmp_path / "chat.jsonl").read_text().splitlines()
    more = [json.dumps({"agent": agent, "task_id": "bare", "trial": 0, "success": True}) for agent in ("careful", "hasty")]
    (tmp_path / "chat.jsonl").write_text("\n".join([*kept, *more]))
    whichloop("import", "chat.jsonl", "--name", "first")
    whichloop("gate", "first", "--bless", "--output", "base.json")
    whichloop("export", "first", "--format", "atif", "--output", "out")
    whichloop("import", "out", "--name", "again")
    refused = whichloop("gate", "again", "--baseline", "base.json")
    assert refused.code == 3
    assert "0 changed, 0 added, 1 removed" in refused.out
