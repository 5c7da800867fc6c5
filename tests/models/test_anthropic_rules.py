"""What Anthropic's API refuses is refused here too: by table over HTTP, and by law for conversations."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.server import Server
from whichloop.models.wires.contract import Incoming
from whichloop.models.wires.fields import BadRequest
from whichloop.models.wires.messages import MESSAGES
from whichloop.protocol import Reply

from .anthropic_cases import BODY, CASES, HEADERS, TEXT, USER, RefusedMessages
from .served import Book, fixed, run


def changed(change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (BODY | change).items() if value is not None}


def problem(body: dict[str, Any], headers: dict[str, str] = HEADERS) -> str | None:
    try:
        MESSAGES.read(Incoming(body, ("v1", "messages"), headers=headers))
    except BadRequest as error:
        return str(error)
    return None


def test_a_good_request_is_taken() -> None:
    assert problem(BODY) is None


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_refused_and_how(case: RefusedMessages) -> None:
    said = problem(changed(case.change), case.headers)
    assert said is not None
    assert said.startswith(case.said)


def test_the_official_client_meets_each_refusal_as_that_of_the_vendor() -> None:
    anthropic = pytest.importorskip("anthropic")

    async def work(server: Server, _: Any) -> list[Any]:
        raised = []
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0) as client:
            for case in CASES:
                headers = {"anthropic-version": case.headers.get("anthropic-version", anthropic.Omit())}
                asking = client.post("/v1/messages", cast_to=object, body=changed(case.change), options={"headers": headers})
                with pytest.raises(anthropic.BadRequestError) as caught:
                    await asking
                raised.append(caught.value)
        return raised

    for case, error in zip(CASES, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert error.type == "invalid_request_error", case.what
        assert error.api_message.startswith(case.said), case.what
        assert error.request_id == error.response.json()["request_id"]


# --- conversations ---


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Histories as a sound loop keeps them: every call is answered once, right after it, in any order, in one message or more."""
    made: list[dict[str, Any]] = [USER]
    for _ in range(draw(st.integers(1, 4))):
        texts = [TEXT] * draw(st.integers(0, 1))
        ids = [f"toolu_{place}" for place in range(draw(st.integers(0, 3)))]  # they may come again in a later turn
        calls = [{"type": "tool_use", "id": name, "name": "add", "input": {}} for name in ids]
        made.append({"role": "assistant", "content": (texts + calls) or "So."})
        results = [{"type": "tool_result", "tool_use_id": name, "content": "2"} for name in draw(st.permutations(ids))]
        cut = draw(st.integers(0, len(results)))
        parts = [results[:cut], results[cut:] + [TEXT] * draw(st.integers(0, 1))]
        made += [{"role": "user", "content": part} for part in parts if part] or [USER]
    return made


def results_in(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (place, index)
        for place, message in enumerate(messages)
        if isinstance(message["content"], list)
        for index, block in enumerate(message["content"])
        if block["type"] == "tool_result"
    ]


@given(conversations())
def test_a_sound_conversation_is_taken(messages: list[dict[str, Any]]) -> None:
    assert problem(BODY | {"messages": messages}) is None


@given(conversations(), st.data())
def test_a_conversation_with_one_result_lost_doubled_renamed_or_moved_is_refused(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    results = results_in(messages)
    if not results:
        return
    place, index = data.draw(st.sampled_from(results))
    broken = copy.deepcopy(messages)
    content = broken[place]["content"]
    match data.draw(st.sampled_from(["lost", "doubled", "renamed", "moved"])):
        case "lost":
            content[index] = TEXT
        case "doubled":
            content.insert(index, content[index])
        case "renamed":
            content[index]["tool_use_id"] = "another"
        case _:
            content.insert(0, TEXT)
    said = problem(BODY | {"messages": broken})
    assert said is not None
    assert said.startswith("messages.")


# --- the page ---


def test_the_page_has_a_row_with_a_source_for_each_case() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    table = page.split("| what | the message begins with | source |\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]
    assert [what for what, _, _ in rows] == [case.what for case in CASES]
    for (_, said, _), case in zip(rows, CASES, strict=True):
        shown = said[3:-3] if said.startswith("`` ") else said[1:-1]  # a text with backquotes in it stands between pairs of them
        assert case.said.startswith(shown)
    assert all(re.search(r"\w+/[\w.-]+#\d+|platform\.claude\.com/docs/\w+|the same words", source) for _, _, source in rows)
