"""docs/outside.md: the trajectory that it shows is imported by its commands as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from tests.docs.pages import DOCS, output_of

PAGE = (DOCS / "outside.md").read_text(encoding="utf-8")


def test_the_chat_messages_are_imported_explained_and_exported(tmp_path: Path) -> None:
    found = re.search(r"`(chat\.jsonl)`.*?```json\n(.*?)```.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    place, line, block = found.groups()
    (tmp_path / place).write_text(json.dumps(json.loads(line)), encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in block.splitlines()]
    output_of(commands[:1], tmp_path)
    assert "price(item=10) failed once (Error: the shop is down)" in output_of(commands[1:2], tmp_path)
    output_of(commands[2:], tmp_path)
    (exported,) = (tmp_path / "chats-atif").rglob("*.json")
    assert "the shop is down" in exported.read_text(encoding="utf-8")


def test_the_trajectory_is_imported_explained_and_exported(tmp_path: Path) -> None:
    found = re.search(r"`(trajectories/[a-z]+\.json)`.*?```json\n(.*?)```.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    place, document, block = found.groups()
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).write_text(document, encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in block.splitlines()]
    assert re.search(r"^careful +1\.00 \[", output_of(commands[:1], tmp_path), re.MULTILINE)
    assert "bash(command='wc -l a.csv') → 12 a.csv" in output_of([["show", "agents", "careful/count-lines/0"]], tmp_path)
    output_of(commands[1:], tmp_path)
    (exported,) = (tmp_path / "agents-atif").rglob("*.json")
    again = json.loads(exported.read_text(encoding="utf-8"))
    assert again["extra"].pop("whichloop")
    assert again == json.loads(document)
