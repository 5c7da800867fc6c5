"""What cells were read as where they hold something else: words among numbers of a score, `N/A`, and answers that are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ScoreScale, import_files
from whichloop.experiments.import_runs.table_rows import MAX_WORDS, FileRow, scores_in_words
from whichloop.experiments.import_runs.values import MAX_ANSWER_CHARS

WORDS = {"yes": "1", "no": "0", "C": "1", "P": "0.5"}
BLANK = ("N/A", "-", "none")


def rows_of(cells):
    return [FileRow(f"line {number}", {"score": cell}) for number, cell in enumerate(cells, 2)]


@given(st.lists(st.sampled_from([1, 0, "1", "0.5", *WORDS, *BLANK, "", None, "ERROR"]), max_size=20))
def test_each_word_is_told_with_its_number_how_often_and_where_it_first_stands(cells):
    """The law: among numbers every word is told, always every text that stands for no score, and nothing else."""
    said = " ".join(scores_in_words(rows_of(cells), "ok?", None))
    has_numbers = any(cell in (1, 0, "1", "0.5") for cell in cells)
    told = {word: [n for n, cell in enumerate(cells, 2) if cell == word] for word in (*(WORDS if has_numbers else ()), *BLANK)}
    parts = [
        f"{word!r} as {WORDS.get(word, 'no score')} "
        + (f"(line {at[0]})" if len(at) == 1 else f"in {len(at)} cells (the first in line {at[0]})")
        for word, at in told.items()
        if at
    ]
    assert bool(said) is bool(parts)
    assert sum(part in said for part in parts) == min(len(parts), MAX_WORDS)
    assert said.endswith(f" and {len(parts) - MAX_WORDS} other") is (len(parts) > MAX_WORDS)


def test_a_word_on_a_scale_is_told_as_its_end():
    (said,) = scores_in_words(rows_of([80, "yes", "fail"]), "grade", ScoreScale(0, 100))
    assert said == "column 'grade' is read so: 'yes' as 100 (line 3), 'fail' as 0 (line 4)"


def test_a_truth_value_among_numbers_is_told():
    (said,) = scores_in_words(rows_of([0.5, True, False]), "ok", None)
    assert said == "column 'ok' is read so: True as 1 (line 3), False as 0 (line 4)"
    assert not list(scores_in_words(rows_of([True, False]), "ok", None))


@pytest.mark.parametrize(("length", "is_told"), [(MAX_ANSWER_CHARS, False), (MAX_ANSWER_CHARS + 1, True), (1_000_000, True)])
def test_an_answer_that_is_cut_is_told_with_its_column_and_line(kit, tmp_path, length, is_told):
    rows = [{"task": f"t{n}", "score": 1, "output": "x" * (length if n == 3 else 3)} for n in range(6)]
    made = import_files([kit.put("\n".join(map(json.dumps, rows)), ".jsonl")], ImportRequest(), tmp_path / "made")
    said = "column 'output': 1 answer is cut to 4,000 characters (line 4)"
    assert any(note.endswith(said) for note in made.notes) is is_told


def test_long_last_replies_of_messages_and_of_trajectories_are_told(kit, tmp_path):
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x" * 5_000}]
    rows = [{"task": f"t{n}", "score": 1, "chat": chat} for n in range(2)]
    made = import_files([kit.put(rows)], ImportRequest(), tmp_path / "rows")
    assert any(note.endswith("column 'chat': 2 answers are cut to 4,000 characters (the first: row 1)") for note in made.notes)
    steps = [{"step_id": 1, "source": "user", "message": "q"}, {"step_id": 2, "source": "agent", "message": "x" * 5_000}]
    (tmp_path / "count.json").write_text(
        json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": steps})
    )
    made = import_files([tmp_path / "count.json"], ImportRequest(), tmp_path / "trajectories")
    assert any(note.endswith("count.json: 1 answer is cut to 4,000 characters (task count)") for note in made.notes)
