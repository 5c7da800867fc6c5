"""What OpenAI's API refuses is refused here too: by table over HTTP, and by law for conversations and schemas."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.chat import read_request
from whichloop.models.wires.fields import BadRequest, function_problem, reply_problem
from whichloop.protocol import Reply

from .served import BODY, Book, failure, fixed, run
from .vendor_cases import CASES, USER, RefusedCase


def problem(body: dict[str, Any]) -> BadRequest | None:
    try:
        read_request(body)
    except BadRequest as error:
        return error
    return None


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_refused_and_how(case: RefusedCase) -> None:
    error = problem(BODY | case.change)
    assert error is not None
    assert (error.param, error.code) == (case.param, case.code)
    assert case.said in str(error)


@pytest.mark.parametrize("cases", [CASES[::5], pytest.param(CASES, marks=pytest.mark.slow)], ids=["some", "each"])
def test_the_official_client_meets_each_refusal_as_that_of_the_vendor(cases: Any) -> None:
    async def work(server: Any, asking: Any) -> list[Any]:
        return [await failure(asking, extra_body=case.change) for case in cases]

    for case, raised in zip(cases, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert type(raised) is openai.BadRequestError, case.what
        assert (raised.status_code, raised.type) == (400, "invalid_request_error")
        assert (raised.param, raised.code) == (case.param, case.code), case.what
        assert case.said in raised.response.json()["error"]["message"]


# --- conversations ---


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Histories as a sound loop keeps them: every call is answered once, right after it, in any order."""
    made: list[dict[str, Any]] = []
    number = 0
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            made.append(draw(st.sampled_from([USER, {"role": "assistant", "content": "So."}, {"role": "system", "content": "?"}])))
            continue
        ids = [f"c{number + place}" for place in range(draw(st.integers(1, 3)))]
        number += len(ids) * draw(st.integers(0, 1))  # a provider's ids may come again in a later turn
        calls = [{"id": name, "type": "function", "function": {"name": "add", "arguments": "{}"}} for name in ids]
        made.append({"role": "assistant", "content": draw(st.none() | st.just("")), "tool_calls": calls})
        made += [{"role": "tool", "tool_call_id": name, "content": "2"} for name in draw(st.permutations(ids))]
    return made or [USER]


@given(conversations())
def test_a_sound_conversation_is_taken(messages: list[dict[str, Any]]) -> None:
    assert problem(BODY | {"messages": messages}) is None


@given(conversations(), st.data())
def test_a_conversation_with_one_result_lost_doubled_renamed_or_moved_is_refused(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    results = [place for place, message in enumerate(messages) if message["role"] == "tool"]
    if not results:
        return
    place = data.draw(st.sampled_from(results))
    broken = copy.deepcopy(messages)
    match data.draw(st.sampled_from(["lost", "doubled", "renamed", "moved"])):
        case "lost":
            del broken[place]
        case "doubled":
            broken.insert(place, broken[place])
        case "renamed":
            broken[place]["tool_call_id"] = "another"
        case _:
            broken = [broken[place], *broken[:place], *broken[place + 1 :]]
    error = problem(BODY | {"messages": broken})
    assert error is not None
    assert (error.param or "").startswith("messages")


# --- schemas ---

leaves = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": ["a", 1]}, {}])
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda kinds: {"anyOf": kinds}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda named: {"type": "object", "properties": named}, st.dictionaries(st.sampled_from("abc"), inner))
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), schemas))
def test_parameters_whose_arrays_have_items_are_taken(named: dict[str, Any]) -> None:
    assert function_problem({"type": "object", "properties": named}, strict=False) is None


@given(st.dictionaries(st.sampled_from("abc"), schemas), st.sampled_from(["array", ["null", "array"]]), st.data())
def test_an_array_without_items_is_found_at_any_depth(named: dict[str, Any], kind: Any, data: st.DataObject) -> None:
    inner: dict[str, Any] = {"type": kind}
    for _ in range(data.draw(st.integers(0, 4))):
        inner = data.draw(
            st.sampled_from(
                [
                    {"type": "array", "items": inner},
                    {"anyOf": [{"type": "null"}, inner]},
                    {"type": "object", "properties": {"deep": inner}},
                    {"type": "object", "additionalProperties": inner},
                ]
            )
        )
    said = function_problem({"type": "object", "properties": named | {"z": inner}}, strict=False)
    assert said is not None
    assert said.startswith("In context=('properties', 'z'")
    assert said.endswith("array schema missing items")


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with all objects in it closed, as structured outputs want them."""
    made = dict(schema)
    if "anyOf" in made:
        made["anyOf"] = [closed(item) for item in made["anyOf"]]
    if "items" in made:
        made["items"] = closed(made["items"])
    if made.get("type") == "object":
        named = {name: closed(value) for name, value in made.get("properties", {}).items()}
        made |= {"properties": named, "required": list(named), "additionalProperties": False}
    return made


@given(schemas)
def test_structured_outputs_take_closed_objects_only(inner: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"z": inner}, "required": ["z"], "additionalProperties": False}
    assert reply_problem(closed(whole)) is None
    assert function_problem(closed(whole), strict=True) is None
    if inner.get("type") == "object":
        assert "'additionalProperties' is required" in (reply_problem(whole) or "")
    assert 'type: "None"' in (reply_problem(inner | {"type": None}) or "")


# --- the page ---


def test_the_page_has_a_row_with_a_source_for_each_case() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    table = page.split("| what | `param` | `code` | source |\n")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]
    shown = [(what, param.strip("`"), code.strip("`")) for what, param, code, _ in rows]
    assert shown == [(case.what, case.param or "null", case.code or "null") for case in CASES]
    assert all(re.search(r"\w+/[\w.-]+#\d+|specification, \w+|the same", source) for _, _, _, source in rows)
