"""docs/plans.md: its questions, its commands and its JSON work as they stand. `--write` renews what it shows."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

import jsonschema
import pytest

from benchmarks.pages import block
from tests.docs.pages import DOCS, commands, output_of, preformatted, write_output
from whichloop.datasets.importing.plan_model import plan_schema, shape_mistakes

PAGE = DOCS / "plans.md"
CHECK = ["check", "questions.csv", "--tools", "shop", "--run-tools"]


def prepare(folder: Path) -> str:
    """Write the tools of the page on one's own tasks, and this page's questions, and return these."""
    tools = re.search(r"```python\n(.*?)```", (DOCS / "own-tasks.md").read_text(encoding="utf-8"), re.DOTALL)
    assert tools is not None
    (folder / "shop.py").write_text(tools[1], encoding="utf-8")
    questions = block(PAGE, "questions").strip().removeprefix("```csv\n").removesuffix("```")
    (folder / "questions.csv").write_text(questions, encoding="utf-8")
    return questions


def mistaken(folder: Path) -> str:
    questions = prepare(folder)
    wrong = questions.replace("price(item='chair')", "price(itm='chair')").replace("in stock?,4", "in stock?,5")
    (folder / "questions.csv").write_text(wrong, encoding="utf-8")
    return output_of([CHECK], folder).strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("shop", None)


def test_the_commands_of_the_page_work(folder):
    prepare(folder)
    check, compare = commands(PAGE)
    assert check == CHECK
    checked = output_of([check], folder)
    assert "Plans      3 of 3 tasks, 5 calls\nCalls      made\nRight      3 plans lead to the right answer" in checked
    assert "bare" in output_of([compare], folder)


def test_what_is_wrong_is_as_shown(folder):
    assert mistaken(folder) == preformatted(PAGE, "wrong")


def test_the_plan_in_json_is_one():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shape_mistakes(json.loads(text)) == []
    jsonschema.validate(json.loads(text), plan_schema())


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made:
        sys.path.insert(0, made)
        write_output(PAGE, "wrong", mistaken(Path(made)))
