"""Anthropic's message threads, a beta: the server keeps a conversation, and a request sends only what is new in it.

See platform.claude.com/docs/en/build-with-claude/message-threads. Here a thread is kept as long as it is among the
4,096 answers that were used last, and these have room in 64 MB (see `server/memory.py`). The same answer may be continued more than
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.protocol.json_text import Json

from .anthropic_fields import MAX_SHOWN_CHARS, optional, refused, required, wrong_tag
from .contract import Recall
from .fields import BadRequest

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
