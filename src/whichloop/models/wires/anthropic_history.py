"""The conversation of a Messages request: read into ours, and held to Anthropic's rules in its words (sources: docs/serve.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from whichloop.protocol import Message, NativeCall
from whichloop.protocol.json_text import Json
from whichloop.protocol.moves import Inexpressible
from whichloop.protocol.wire import to_json

from .anthropic_fields import MAX_SHOWN_CHARS, checked, one_of, only_known, optional, refused, required, wrong_tag
from .contract import Recall
from .fields import BadRequest

MAX_MESSAGES = 100_000
MAX_BLOCKS = 100_000
"""Blocks of all messages, and blocks in them."""
MAX_CALL_NAME_CHARS = 200
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_OUR_ID = "call_"
_THEIR_PREFIX = "toolu_"
_UNPARSED = ("INVALID_JSON", "_unparsed")
"""Keys under which clients give back arguments that were not JSON: that of Anthropic's documentation ("Fine-grained tool
streaming"), and lm15's."""

_FIELDS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
}
_UNREADABLE = frozenset({"browser_state", "container_upload", "document", "image", "search_result", "tool_reference"})
"""Blocks that the API takes and the model here cannot read."""
_SKIPPED = frozenset(
    {
        "bash_code_execution_tool_result", "code_execution_tool_result", "compaction", "mcp_tool_result", "mcp_tool_use",
        "redacted_thinking", "server_tool_use", "text_editor_code_execution_tool_result", "thinking", "tool_search_tool_result",
        "web_fetch_tool_result", "web_search_tool_result",
    }
)  # fmt: skip
"""Blocks that the API takes back in its own replies' name, and of which the model here has no use."""

Block = str | NativeCall | Message
"""A text, a call, or the result of one; ids are as the client has them."""


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block and where it stands."""

    block: Block
    place: int
    """Of its message."""
    index: int
    """Among the blocks of its message."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side says: one message, or several in a row, which the API joins."""

    role: str
    place: int
    """Of its last message."""
    blocks: tuple[PlacedBlock, ...]


def read_messages(items: list[Any], *, may_cite: bool = True) -> tuple[Message, ...]:
    """Read the field `messages`. Raises BadRequest. `may_cite`: whether texts of the user may have citations.

    The results of a message come first, then its text. Text blocks are joined by line breaks. A result that is marked as an error
    begins with `Error`. Blocks of thinking and of the vendor's own tools are skipped.
    """
    if not items:
        raise refused("messages", "at least one message is required")
    if len(items) > MAX_MESSAGES:
        raise refused("messages", f"List should have at most {MAX_MESSAGES} items after validation, not {len(items)}")
    if (blocks := sum(_block_count(item) for item in items)) > MAX_BLOCKS:
        raise refused("messages", f"content should have at most {MAX_BLOCKS} blocks in all, not {blocks}")
    turns = tuple(_turn(item, place) for place, item in enumerate(items))
    if turns[0].role != "user":
        raise refused("messages", 'first message must use the "user" role')
    if not may_cite:
        _check_uncited(items)
    _check_calls(list(_joined(turns)))
    if turns[-1].role == "assistant":
        problem = "This model does not support assistant message prefill. The conversation must end with a user message."
        raise BadRequest(problem, "messages")
    return tuple(message for turn in turns for message in _messages(turn))


def their_id(call_id: str) -> str:
    """Return the id of a call as Anthropic writes ids."""
    return _THEIR_PREFIX + call_id if call_id.startswith(_OUR_ID) else call_id


def _our_id(call_id: str) -> str:
    return call_id.removeprefix(_THEIR_PREFIX) if call_id.startswith(_THEIR_PREFIX + _OUR_ID) else call_id


def system_text(system: Any) -> str | None:
    """Read the field `system`. Raises BadRequest."""
    if system is None or isinstance(system, str):
        return system
    blocks = checked(system, list, "system")
    return "\n".join(
        _text_block(_block(block, f"system.{index}", ("text",)), f"system.{index}") for index, block in enumerate(blocks)
    )


# --- reading ---


def _turn(item: Any, place: int) -> Turn:
    where = f"messages.{place}"
    data = checked(item, dict, where)
    only_known(data, ("role", "content"), where)
    role = required(data, "role", str, f"{where}.role")
    if role == "system" and not place:
        problem = (
            'Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input message'
        )
        raise refused("messages", f"{problem} role.")
    if role != "system":
        one_of(role, ("user", "assistant"), f"{where}.role")
    blocks = tuple(
        PlacedBlock(block, place, index)
        for index, content in enumerate(_contents(data, where))
        if (block := _read_block(content, f"{where}.content.{index}", role)) is not None
    )
    return Turn(role, place, blocks)


def _block_count(item: Any) -> int:
    """Count the blocks of a message, or those in a block, at any depth."""
    content = item.get("content") if isinstance(item, dict) else None
    return len(content) + sum(map(_block_count, content)) if isinstance(content, list) else 0


def _contents(data: Mapping[str, Any], where: str) -> list[Any]:
    """Return the blocks of a message; a text is one block."""
    if "content" not in data:
        raise refused(f"{where}.content", "Field required")
    content = data["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": checked(content, str, f"{where}.content")}]
    if not content:
        raise refused(where, "all messages must have non-empty content except for the optional final assistant message")
    return blocks


def _block(block: Any, where: str, kinds: Iterable[str]) -> dict[str, Any]:
    """Return a block that the model can read. Raises BadRequest for any other, and for fields that it does not have."""
    data = checked(block, dict, where)
    kind = required(data, "type", str, f"{where}.type")
    if kind in _UNREADABLE:
        raise refused(where, f"this model reads text only, and no block of the type '{kind}'")
    if kind not in kinds:
        raise wrong_tag(kind, tuple(kinds), where)
    only_known(data, _FIELDS[kind], f"{where}.{kind}")
    return data


def _read_block(block: Any, where: str, role: str) -> Block | None:
    """Read a block of a message; None for one that is skipped."""
    if isinstance(block, dict) and isinstance(block.get("type"), str) and block["type"] in _SKIPPED:
        return None
    data = _block(block, where, ("text",) if role == "system" else _FIELDS)
    kind = data["type"]
    if kind == "text":
        return _text_block(data, where)
    if kind == "tool_use":
        if role != "assistant":
            raise refused(where.split(".content")[0], "`tool_use` blocks can only be in `assistant` messages")
        return _call(data, f"{where}.tool_use")
    if role != "user":
        raise refused(where.split(".content")[0], "`tool_result` blocks can only be in `user` messages")
    return _result(data, f"{where}.tool_result")


def _text_block(data: Mapping[str, Any], where: str) -> str:
    text = required(data, "text", str, f"{where}.text.text")
    field = where.partition(".")[0]
    if not text:
        raise refused(field, "text content blocks must be non-empty")
    if text.isspace():
        raise refused(field, "text content blocks must contain non-whitespace text")
    return text


def _call(data: Mapping[str, Any], where: str) -> NativeCall:
    call_id = _call_id(data, "id", where)
    name = required(data, "name", str, f"{where}.name")
    if not name:
        raise refused(f"{where}.name", "String should have at least 1 character")
    if len(name) > MAX_CALL_NAME_CHARS:
        raise refused(f"{where}.name", f"String should have at most {MAX_CALL_NAME_CHARS} characters")
    return NativeCall(call_id, name, _arguments(required(data, "input", dict, f"{where}.input")))


def _call_id(data: Mapping[str, Any], name: str, where: str) -> str:
    call_id = required(data, name, str, f"{where}.{name}")
    if not _ID.fullmatch(call_id):
        raise refused(f"{where}.{name}", "String should match pattern '^[a-zA-Z0-9_-]+$'")
    return call_id


def _arguments(arguments: dict[str, Any]) -> str:
    """Write arguments as the scripted model does."""
    for key in _UNPARSED:
        if arguments.keys() == {key} and isinstance(arguments[key], str):
            return str(arguments[key])
    try:
        return to_json(arguments)
    except Inexpressible:
        return json.dumps(arguments)


def _result(data: Mapping[str, Any], where: str) -> Message:
    call_id = _call_id(data, "tool_use_id", where)
    content = data.get("content")
    if content is None or isinstance(content, str):
        text = content or ""
    else:
        blocks = enumerate(checked(content, list, f"{where}.content"))
        parts = [_block(block, f"{where}.content.{index}", ("text",)) for index, block in blocks]
        text = "\n".join(required(part, "text", str, f"{where}.content.{index}.text.text") for index, part in enumerate(parts))
    if optional(data, "is_error", bool, f"{where}.is_error") and not text.lower().startswith("error"):
        text = f"Error: {text}"
    return Message("tool", text, call_id=call_id)


def _messages(turn: Turn) -> Iterable[Message]:
    """Yield the messages that one of the vendor's stands for."""
    blocks = [placed.block for placed in turn.blocks]
    text = "\n".join(block for block in blocks if isinstance(block, str))
    if turn.role == "assistant":
        calls = (block for block in blocks if isinstance(block, NativeCall))
        yield Message("assistant", text, tuple(replace(call, id=_our_id(call.id)) for call in calls))
        return
    results = [replace(block, call_id=_our_id(block.call_id)) for block in blocks if isinstance(block, Message)]
    yield from results
    if text or not results:
        yield Message("system" if turn.role == "system" else "user", text)


# --- rules ---


def _joined(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns with those of one side in a row joined."""
    for role, several in groupby(turns, key=lambda turn: turn.role):
        row = list(several)
        yield Turn(role, row[-1].place, tuple(chain.from_iterable(turn.blocks for turn in row)))


def _check_uncited(items: Sequence[Any]) -> None:
    """Check that no text of the user has citations. Raises BadRequest. `items`: messages that have been read."""
    for place, item in enumerate(items):
        if item["role"] == "user" and isinstance(item["content"], list):
            _check_uncited_blocks(item["content"], f"messages.{place}.content")


def _check_uncited_blocks(blocks: Sequence[Any], where: str) -> None:
    for index, block in enumerate(blocks):
        if block["type"] == "text" and block.get("citations"):
            raise refused(f"{where}.{index}.text.citations", "Extra inputs are not permitted")
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            _check_uncited_blocks(block["content"], f"{where}.{index}.tool_result.content")


def _check_calls(turns: Sequence[Turn]) -> None:
    """Check that the calls of every turn are answered at the beginning of the next one, each by one result. Raises BadRequest."""
    waiting: Collection[str] = ()
    for number, turn in enumerate(turns):
        answered = _answered(turn, waiting)
        if missing := [call_id for call_id in waiting if call_id not in answered]:
            raise _unanswered(turns[number - 1], missing)
        ids: dict[str, None] = {}
        for placed in turn.blocks:
            if not isinstance(placed.block, NativeCall):
                continue
            if placed.block.id in ids:
                raise refused(f"messages.{placed.place}.content.{placed.index}", "`tool_use` ids must be unique")
            ids[placed.block.id] = None
        waiting = ids
    if waiting:
        raise _unanswered(turns[-1], waiting)


def _answered(turn: Turn, waiting: Collection[str]) -> set[str]:
    """Return the ids of the calls that a turn answers before it says anything else. `waiting`: ids, to be looked up quickly."""
    answered: set[str] = set()
    leading: set[str] = set()
    has_text = False
    for placed in turn.blocks:
        if not isinstance(placed.block, Message):
            has_text = True
            continue
        call_id, where = placed.block.call_id, f"messages.{placed.place}.content.{placed.index}"
        if call_id not in waiting:
            problem = f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block must have"
            raise refused(where, f"{problem} a corresponding `tool_use` block in the previous message.")
        if call_id in answered:
            problem = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            raise refused(where, f"{problem}: {call_id}")
        answered.add(call_id)
        if not has_text:
            leading.add(call_id)
    return leading


def _unanswered(turn: Turn, missing: Iterable[str]) -> BadRequest:
    ids = ", ".join(missing)
    problem = f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block must have"
    return refused(f"messages.{turn.place}", f"{problem} a corresponding `tool_result` block in the next message.")


NOT_FOUND = "thread_not_found"
"""The code of a thread that is not kept, by which Anthropic's client knows that it must send the whole conversation again."""
MESSAGE_PREFIX = "msg_"
"""Beginning of a message's id; what the server keeps of answers with other ids is in the form of another API."""
_OF_THE_THREAD = ("system", "tools")
"""Fields that only the first request of a thread may have."""


def whole_body(body: Mapping[str, object], recall: Recall) -> dict[str, Any]:
    """Return the body of a request with all that its thread keeps. Raises BadRequest."""
    thread = optional(body, "thread", dict)
    if thread is None:
        return dict(body)
    kind = required(thread, "type", str, "thread.type")
    if kind == "create":
        return dict(body)
    if kind != "continue":
        raise wrong_tag(kind, ("create", "continue"), "thread")
    previous_id = required(thread, "previous_message_id", str, "thread.continue.previous_message_id")
    for name in _OF_THE_THREAD:
        if body.get(name) is not None:
            raise refused(
                name, "the thread keeps the value of the request that created it; leave it out of a request that continues it"
            )
    kept = recall(previous_id) if previous_id.startswith(MESSAGE_PREFIX) else None
    if kept is None:
        raise BadRequest(f"No thread is kept for the message '{previous_id[:MAX_SHOWN_CHARS]}'.", "thread", NOT_FOUND)
    before = kept[0]
    messages = [*before["messages"], *required(body, "messages", list)]
    return {**body, **{name: before[name] for name in _OF_THE_THREAD if name in before}, "messages": messages}


def kept_thread(body: Mapping[str, object]) -> tuple[dict[str, Any], ...]:
    """Return what a thread keeps of a request's whole body; nothing if the request has no thread."""
    if body.get("thread") is None:
        return ()
    return ({name: body[name] for name in (*_OF_THE_THREAD, "messages") if body.get(name) is not None},)


def with_reply(thread: Mapping[str, Any], content: list[Any]) -> dict[str, Json]:
    """Return a thread with the model's message at its end; a message without content leaves none."""
    turn = [{"role": "assistant", "content": content}] if content else []
    return {**thread, "messages": [*thread["messages"], *turn]}
