"""`import --arm --model`: agents of terminal-bench crossed with models, end to end."""

from __future__ import annotations

import json


def written(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def judged(number, resolved, run):
    """What terminal-bench writes of a trial."""
    task = f"task-{number:02}"
    return {"id": f"{task}-{run}", "task_id": task, "instruction": task, "is_resolved": resolved, "failure_mode": "unset"}


def submission(folder, agent, *, solved, model, names=("x-1",)):
    """Runs of an agent whose metadata call its model each time otherwise."""
    for number, name in enumerate(names):
        written(folder / f"run{number}" / "run_metadata.json", {"agent_name": agent, "model_name": name})
        trials = [judged(n, n < solved, f"{folder.name}{number}") for n in range(20)]
        written(folder / f"run{number}" / "results.json", {"results": trials})
    return [folder, "--arm", agent, "--model", model]


def test_agents_crossed_with_models_say_which_moves_accuracy(whichloop, tmp_path):
    given = [
        *submission(tmp_path / "careful-small", "careful", solved=15, model="small", names=("x-1", "x-1-20250514")),
        *submission(tmp_path / "careful-large", "careful", solved=17, model="large"),
        *submission(tmp_path / "hasty-small", "hasty", solved=3, model="small"),
        *submission(tmp_path / "hasty-large", "hasty", solved=4, model="large"),
    ]
    made = whichloop("import", *map(str, given), "--json")
    assert "careful-small: x-1, x-1-20250514 are taken as the one model of --model\n" in made.err
    (harness,) = made.json["harness"]
    assert (harness["loops"], harness["conditions"], harness["tasks"]) == (["careful", "hasty"], ["small", "large"], 20)
    assert harness["difference"]["low"] > 0
    assert {arm["arm"] for arm in made.json["arms"]} == {"careful/small", "careful/large", "hasty/small", "hasty/large"}


def test_arms_of_a_table_are_not_taken_as_one(whichloop, tmp_path):
    table = tmp_path / "two.csv"
    table.write_text("arm,task,score\nA,1,1\nB,1,0\n")
    refused = whichloop("import", str(table), "--arm", "X", "--model", "m1")
    assert refused.code == 2
    assert "--arm names one arm per file, and this one holds 2: A, B" in refused.err
