"""`prompts` through the command line: exit codes, JSON, and that a program's text is data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sealing import reseal

EVIL = "Do \x1b[2J\x1b]0;owned\x07 \u202e[bold]this[/bold]\r<b>"


def saved(path: Path, instructions: str = "Do it.", demos: list[dict[str, Any]] | None = None, **about: Any) -> str:
    state = {"decide": {"signature": {"instructions": instructions, "fields": []}, "demos": demos or []}}
    path.write_text(json.dumps({**state, "metadata": {}, "whichloop": {"loop": "bare", **about}}), encoding="utf-8")
    reseal(path)
    return path.name


def test_a_program_is_shown(whichloop, here):
    talk = json.dumps([{"role": "user", "content": "How many?"}])
    name = saved(here / "p.json", "Do it.\nWell.", [{"conversation": talk, "reply": "3"}], optimizer="COPRO")
    shown = whichloop("prompts", name)
    assert (shown.code, shown.err) == (0, "")
    wanted = ["p.json", "loop       bare", "optimizer  COPRO", "── decide", "Do it.", "Well.", "user: How many?", "assistant: 3"]
    places = [shown.out.index(line) for line in wanted]
    assert places == sorted(places)


def test_a_loops_own_program_is_shown_and_its_json_read(whichloop):
    assert "── decide" in whichloop("prompts", "bare").out
    made = whichloop("prompts", "bare", "--json").json
    assert made["predictors"]["decide"]["demos"] == []
    assert made["predictors"]["decide"]["instructions"]


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_control_characters_are_shown_as_their_codes(whichloop, here, how):
    name = saved(here / "p.json", EVIL, [{"query": EVIL, EVIL: 1}], **{EVIL: EVIL})
    shown = whichloop("prompts", name, *how)
    assert shown.code == 0, shown.err
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown.out)
    assert "[bold]" in shown.out


def test_a_diff_of_control_characters_is_safe(whichloop, here):
    found = whichloop("prompts", saved(here / "a.json"), saved(here / "b.json", EVIL, [{EVIL: EVIL}]))
    assert found.code == 1
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(found.out)
    assert "+Do \\x1b[2J" in found.out


def test_equal_programs_have_no_diff(whichloop, here):
    found = whichloop("prompts", saved(here / "a.json"), saved(here / "b.json", seed=9))
    assert (found.code, found.out, found.err) == (0, "", "")


def test_a_loop_against_its_optimized_program(whichloop, here):
    found = whichloop("prompts", "bare", saved(here / "b.json", "Do it.", [{"query": "1", "answer": "2"}]))
    assert found.code == 1
    lines = found.out.splitlines()
    assert lines[:2] == ["--- bare", "+++ b.json"]
    assert lines[-3:] == ["+── decide, demonstration", "+query: 1", "+answer: 2"]
    assert "+Do it." in lines


def test_a_diff_as_json(whichloop, here):
    found = whichloop("prompts", "bare", saved(here / "b.json"), "--json")
    made = json.loads(found.out)
    assert (found.code, made["equal"], made["diff"][:2]) == (1, False, ["--- bare", "+++ b.json"])
    assert whichloop("prompts", "bare", "bare", "--json").json["equal"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prompts", "nothing.json"), "nothing.json: no such file"),
        (("prompts", "nothing"), "unknown loop 'nothing'"),
        (("prompts", "bare", "empty.json"), "empty.json: not a program: it holds no predictor"),
        (("prompts", "bare", "broken.json"), "broken.json: invalid JSON"),
        (("prompts", "bare@other.json", "bare"), "predictor 'other' is not one of this loop's"),
    ],
)
def test_bad_input_is_one_line(whichloop, here, arguments, said):
    (here / "empty.json").write_text("{}")
    (here / "broken.json").write_text("{")
    (here / "other.json").write_text(json.dumps({"other": {"signature": {"instructions": "x"}, "demos": []}}))
    reseal(here / "other.json")
    ended = whichloop(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
