"""How much is the loop, and how much the model or profile: from an imported table, and from a run under several profiles."""

from __future__ import annotations


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


def test_fault_profiles_stand_in_for_models(whichloop, here):
    profiles = ("--profile", "clean", "--profile", "flaky-tools")
    common = ("-q", "--tasks", "12", "--loop", "bare", "--loop", "finish", *profiles)
    assert whichloop("compare", *common).code == 0
    title = "How much is the loop, how much the fault profile, arithmetic: 2 loops × 2 fault profiles × 12 tasks"
    assert title not in whichloop("report", "latest").out
    assert title in whichloop("report", "latest", "-v").out
