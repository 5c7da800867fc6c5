"""What Gemini's API refuses is refused here too: by table over HTTP, and by law for conversations."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.fields import BadRequest
from whichloop.models.wires.gemini import read_request
from whichloop.protocol import Reply

from .gemini_cases import CALL, CASES, RESULT, USER, GeminiCase
from .served import Book, fixed, run


def problem(body: dict[str, Any]) -> BadRequest | None:
    try:
        read_request(body, "scripted")
    except BadRequest as error:
        return error
    return None


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_refused_and_how(case: GeminiCase) -> None:
    error = problem({"contents": [USER]} | case.change)
    assert error is not None
    assert str(error) == case.said


def test_a_client_meets_each_refusal_as_that_of_the_vendor() -> None:
    async def work(server: Any, asking: Any) -> list[httpx.Response]:
        url = f"{server.url}/v1beta/models/scripted:generateContent"
        async with httpx.AsyncClient(timeout=30) as client:
            return [await client.post(url, json={"contents": [USER]} | case.change) for case in CASES]

    for case, response in zip(CASES, run(work, Book(any=fixed(Reply("x")))), strict=True):
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT"), case.what
        assert error["message"] == case.said
        is_unreadable = case.said.startswith("Invalid ")
        assert ("details" in error) == is_unreadable, case.what


# --- conversations ---


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Histories as a sound loop keeps them: calls follow the user or results, and are answered in the content after them."""
    made: list[dict[str, Any]] = [USER]
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            made += [{"role": "model", "parts": [{"text": "So."}]}, USER]
            continue
        count = draw(st.integers(1, 3))
        said = draw(st.sampled_from([[], [{"text": "I add."}]]))
        made.append({"role": "model", "parts": [*said, *[CALL] * count]})
        made.append({"parts": [RESULT] * count} | draw(st.sampled_from([{}, {"role": "user"}])))
    return made


@given(conversations())
def test_a_sound_conversation_is_taken(contents: list[dict[str, Any]]) -> None:
    assert problem({"contents": contents}) is None


@given(conversations(), st.data())
def test_a_conversation_with_results_lost_doubled_or_moved_is_refused(contents: list[dict[str, Any]], data: st.DataObject) -> None:
    answers = [place for place, content in enumerate(contents) if RESULT in content["parts"]]
    if not answers:
        return
    place = data.draw(st.sampled_from(answers))
    broken = copy.deepcopy(contents)
    match data.draw(st.sampled_from(["lost", "doubled", "one more", "moved", "separated"])):
        case "lost":
            del broken[place]
        case "doubled":
            broken.insert(place, broken[place])
        case "one more":
            broken[place]["parts"].append(RESULT)
        case "moved":
            broken = [broken[place], *broken[:place], *broken[place + 1 :]]
        case _:
            broken.insert(place, USER)
    error = problem({"contents": broken})
    assert error is not None
    assert "function response" in str(error)


# --- the page ---


def test_the_page_has_a_row_with_a_source_for_each_case() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    table = page.split("| what Gemini refuses | source |\n")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]
    assert [what for what, _ in rows] == [case.what for case in CASES]
    assert all(re.search(r"\w+/[\w.-]+#\d+|API reference, \w+|the same", source) for _, source in rows)
