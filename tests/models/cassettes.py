"""Recording and replaying in a few words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from whichloop.models.cassette import (
    Cassette,
    CassetteMode,
    Cleaner,
    Failure,
    Lane,
    RecordedModel,
)
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    Message,
    ModelError,
    NativeCall,
    ProviderError,
    Request,
    Sampling,
    ToolSpec,
    run_sync,
)
from whichloop.protocol.digest import canonical_json

LANE = Lane("bare", "t1", 0)
CLEAN = Cleaner().text


RECORD, REPLAY, EITHER, REFRESH = (
    CassetteMode.RECORD,
    CassetteMode.REPLAY,
    CassetteMode.REPLAY_OR_RECORD,
    CassetteMode.REFRESH,
)


def ask(text: str = "What?", **changes: Any) -> Request:
    return Request((Message("system", "Be brief."), Message("user", text)), **changes)


async def heard(model: RecordedModel, request: Request, stream: bool = False) -> Any:
    """What came: the reply, or the error as plain values."""
    try:
        if not stream:
            return await model.complete(request)
        return [chunk async for chunk in model.stream(request)][-1].reply
    except ProviderError as error:
        return (
            error.kind,
            str(error),
            error.status,
            error.retry_after_s,
            error.injected,
            error.failed_attempts,
        )
    except ModelError as error:
        return type(error).__name__, str(error)


def use(
    folder: Path,
    mode: CassetteMode,
    requests: Sequence[Request] = (),
    inner: FakeModel | None = None,
    *,
    lane: Lane = LANE,
    name: str = "m",
    whole: bool = True,
) -> list[Any]:
    """What one trial hears."""
    cassette = Cassette.open(folder, mode)
    try:
        model = cassette.model(name, lane, inner)
        return [run_sync(heard(model, request)) for request in requests]
    finally:
        cassette.close(whole)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- laws ---


any_text = st.text(st.characters(exclude_categories=()), max_size=12)
texts = any_text.map(CLEAN)
names = st.sampled_from(("", "a", "b", "é"))
counts = st.integers(0, 10**6)
money = st.none() | st.floats(0, 1e6)
failures = st.builds(
    Failure,
    st.sampled_from(("context_overflow", "refused", "rate_limit", "timeout", "bad_request")),
    texts,
    st.none() | counts,
    money,
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
)


schemas = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)


objects = st.dictionaries(any_text, schemas, max_size=3)
messages = st.one_of(
    st.builds(Message, st.sampled_from(("system", "user")), any_text),
    st.builds(
        Message,
        st.just("assistant"),
        any_text,
        st.lists(st.builds(NativeCall, names, any_text, any_text), max_size=2).map(tuple),
    ),
    st.builds(Message, st.just("tool"), any_text, st.just(()), names),
)


samplings = st.builds(
    Sampling,
    st.none() | st.floats(0, 2),
    st.none() | counts,
    st.none() | st.floats(0, 1),
    st.none() | counts,
    st.lists(any_text, max_size=2).map(tuple),
)


requests = st.builds(
    Request,
    st.lists(messages, min_size=1, max_size=4).map(tuple),
    st.lists(st.builds(ToolSpec, any_text, any_text, objects), max_size=2).map(tuple),
    st.none() | any_text,
    st.none() | objects,
    samplings,
    st.booleans(),
)


def plain(request: Request) -> str:
    """What is asked, call ids by their first appearance: written down once more, apart from the code under test."""
    seen: list[str] = []

    def place(name: str) -> int:
        if name not in seen:
            seen.append(name)
        return seen.index(name)

    said = []
    for message in request.messages:
        made = [[place(call.id), call.name, call.arguments] for call in message.calls]
        said.append([message.role, message.content, made, place(message.call_id) if message.role == "tool" else None])
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    sampling = [None if value is None else value for value in (request.sampling.as_dict(),)]
    one_call = bool(tools) and not request.parallel_calls
    grammar = None if request.grammar is None else request.grammar.as_dict()
    return canonical_json([said, tools, request.tool_choice, request.response_schema, sampling, one_call, grammar])
