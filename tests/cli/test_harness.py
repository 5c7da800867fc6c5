"""How much is the harness: from an imported table, and from a run under several profiles, to what is printed."""

from __future__ import annotations


def test_an_imported_table_of_loops_and_models_begins_with_the_sentence(whichloop, here):
    rows = ["arm,task,score"]
    for loop, easy in (("careful", 9), ("hasty", 3)):
        for model, more in (("gpt", 0), ("claude", 1)):
            rows += [f"{loop}/{model},t{task},{int(task % 10 < easy + more)}" for task in range(60)]
    (here / "table.csv").write_text("\n".join(rows) + "\n")
    assert whichloop("import", "table.csv").code == 0
    said = whichloop("report", "latest").out
    assert "Changing the loop moves accuracy more than changing the model (0." in said
    found = whichloop("report", "latest", "--json").json["harness"]
    assert [one["kind"] for one in found] == ["model"]
    assert found[0]["loops_reverse"] == 0.0
    assert {part["source"] for part in found[0]["parts"]} >= {"loop", "model", "task", "loop × model"}
    assert "How much is the harness?" in next(here.glob("runs/*/report.html")).read_text()


def test_fault_profiles_stand_in_for_models(whichloop, here):
    profiles = ("--profile", "clean", "--profile", "flaky-tools")
    common = ("--no-mlflow", "-q", "--tasks", "12", "--loop", "bare", "--loop", "finish", *profiles)
    assert whichloop("compare", *common).code == 0
    assert "How much is the harness" not in whichloop("report", "latest").out
    table = whichloop("report", "latest", "--all-metrics").out
    assert "How much is the harness, arithmetic: 2 loops × 2 fault profiles × 12 tasks" in table
    assert "two loops change places under another fault profile" in table
    assert "than changing the fault profile" in table
