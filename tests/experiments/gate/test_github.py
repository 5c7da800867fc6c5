"""What GitHub Actions shows: annotations in their order, and files as seen from the repository."""

from __future__ import annotations

from dataclasses import replace

from tests.experiments.gate.conftest import ALL, failing, task
from whichloop.experiments.gate import github_annotations, headline, judge, to_junit, to_markdown
from whichloop.experiments.gate.output.brief import examples
from whichloop.experiments.gate.output.github import append_summary
from whichloop.metrics.record import Record


def crashing(record: Record) -> Record:
    """Of `bare/clean` seven tasks crash and lose their score, one is lost otherwise, and one ends otherwise."""
    if record.arm != "bare/clean":
        return record
    if record.task in ALL[:7]:
        return replace(record, stop="crashed", reason="KeyError: 'x'", scores={"accuracy": 0.0})
    if record.task == ALL[7]:
        return replace(record, stop="crashed", reason="ValueError: y")
    return failing(ALL[8])(replace(record, stop="max_steps") if record.task == ALL[9] else record)


def test_crashes_count_as_the_first_line_does_and_stand_first(altered, baseline):
    judged = judge(altered(crashing), baseline)
    assert "16 trials crash now (14 by KeyError: 'x', 2 by 1 other exception)" in headline(judged)
    titles = [line.split("title=")[1].split("::")[0] for line in github_annotations(judged)[1:]]
    assert titles[:2] == [
        "bare/clean%3A 14 of 24 trials crash now (KeyError%3A 'x')",
        "bare/clean%3A 2 of 24 trials crash now (ValueError%3A y)",
    ]
    assert titles[2].startswith("bare/clean%3A 1 task worse by ")
    assert titles[3] == "bare/clean%3A 2 trials with the same score%2C finished → max_steps"
    assert len(titles) == 4


def test_the_example_is_a_crash_that_the_first_line_names(altered, baseline):
    """And not the first in the order of tasks, which may be the only one of its kind."""

    def change(record: Record) -> Record:
        other = record.arm == "bare/clean" and record.task == ALL[0]
        return replace(record, stop="crashed", reason="ValueError: y") if other else crashing(record)

    judged = judge(altered(change), baseline)
    assert "(12 by KeyError: 'x', 4 by 1 other exception)" in headline(judged)
    said, *_ = examples(judged)
    assert said.startswith("- bare/clean: 12 trials crash now (KeyError: 'x'): ")


def test_files_are_named_as_seen_from_the_repository(altered, baseline, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    judged = judge(altered(crashing), baseline, path=tmp_path / "gates" / "b.json")
    append_summary(tmp_path / "step.md", judged)
    for said in ((tmp_path / "step.md").read_text(encoding="utf-8"), "\n".join(github_annotations(judged))):
        assert str(tmp_path) not in said
        assert f"whichloop show run-0 bare/clean/{task(1)}/0" in said.replace("\\", "")


def test_a_crash_is_marked_at_its_line(altered, baseline, tmp_path, monkeypatch):
    """As seen from the repository's folder; a reason that names no file of the project marks none."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "my_loop.py").touch()
    monkeypatch.chdir(tmp_path / "shop")

    def crashing_at(place: str) -> str:
        def change(record: Record) -> Record:
            return replace(crashing(record), reason=f"KeyError: 'x' at {place}") if record.task == task(1) else record

        return github_annotations(judge(altered(change), baseline))[1]

    titled = "title=bare/clean%3A 2 of 24 trials crash now ("
    assert crashing_at("my_loop.py:14").startswith(f"::error file=my_loop.py,line=14,{titled}")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert crashing_at("my_loop.py:14").startswith("::error file=shop/my_loop.py,line=14,title=")
    for other in ("none.py:14", "my_loop.py:x", f"{tmp_path}/shop/my_loop.py:14", "x" * 5000 + ":1", "\x00:1"):
        assert crashing_at(other).startswith("::error title=")


def test_the_first_crash_is_an_error_where_the_outcome_rests_on_its_arm(altered, baseline):
    kinds = [line.split(" ")[0] for line in github_annotations(judge(altered(crashing), baseline))]
    assert kinds == ["::error", "::error", "::warning", "::warning", "::warning"]
    beside = judge(altered(crashing), baseline)
    other = next(arm.arm for arm in beside.arms if arm.arm != "bare/clean")
    lost = tuple(
        replace(arm, lines=tuple(replace(line, outcome="regression" if arm.arm == other else "undecided") for line in arm.lines))
        for arm in beside.arms
    )
    assert [line.split(" ")[0] for line in github_annotations(replace(beside, arms=lost))][:2] == ["::error", "::warning"]


def test_a_summary_begins_with_what_to_do_next_and_has_no_sizes_for_a_loss(altered, baseline):
    judged = judge(altered(crashing), baseline)
    page = to_markdown(replace(judged, bless="whichloop bless RUN -o b.json"))
    head, _, rest = page.partition("### ")
    assert "Fix the loop, or bless the run if the loss is meant:\n\n```text\nwhichloop bless RUN -o b.json\n```" in head
    assert "whichloop bless" not in rest
    assert "tasks pass if all of them agree" not in page


def test_junit_counts_crashes_as_the_first_line_does(altered, baseline):
    made = to_junit(judge(altered(crashing), baseline))
    assert "bare/clean: 14 of 24 trials crash now (KeyError: 'x')" in made
    assert "bare/clean: 1 task worse by " in made
    assert "finished → crashed" not in made
