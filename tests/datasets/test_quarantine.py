"""Quarantine files, and suites with tasks quarantined by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import arithmetic
from whichloop.datasets.task import read_quarantine, with_quarantine

SUITE = arithmetic.load(12)
IDS = [task.id for task in SUITE.tasks]


@given(st.dictionaries(st.sampled_from(IDS), st.text(min_size=1)))
@settings(max_examples=cases(12))
def test_exactly_the_named_tasks_are_quarantined(entries: dict[str, str]) -> None:
    made = with_quarantine(SUITE, entries)
    assert {task.id: task.quarantined for task in made.tasks if task.quarantined} == entries
    assert [task.id for task in made.tasks] == IDS
    assert (made.digest == SUITE.digest) is (not entries)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ValueError, match="has no task 'arithmetic-012'; did you mean 'arithmetic-0012'"):
        with_quarantine(SUITE, {"arithmetic-012": "typed wrong"})


def test_both_formats(tmp_path: Path) -> None:
    entries = {"arithmetic-0001": "the text is unclear", "with space": "why not"}
    (tmp_path / "bad.json").write_text(json.dumps(entries))
    (tmp_path / "bad.toml").write_text('arithmetic-0001 = "the text is unclear"\n"with space" = "why not"\n')
    assert read_quarantine(tmp_path / "bad.json") == read_quarantine(tmp_path / "bad.toml") == entries


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.toml", "arithmetic-0001", "bad.toml: not TOML: "),
        ("bad.toml", "a.b = 'the reason'", 'bad.toml: task \'a\': the reason is {"b": "the reason"}, and must be a text'),
        ("bad.toml", "a = ' '", "bad.toml: task 'a': the reason is empty"),
        ("bad.toml", "a = 2024-01-01", "must be a text"),
        ("bad.json", "[1]", "a quarantine is an object of task ids with a reason each, not a list"),
        ("bad.json", "{", "bad.json: not JSON: "),
        ("bad.json", "[" * 100_000, "bad.json: not JSON: "),
    ],
)
def test_what_is_none_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_quarantine(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
