"""What OpenAI's API refuses in a conversation with tool calls, in its own words (sources: docs/serve.md)."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.protocol import Message

from .fields import BadRequest


def check_history(messages: Sequence[Message]) -> None:
    """Check that the calls of every assistant message are answered by the tool messages right after it, each by one.

    Raises BadRequest.
    """
    waiting: dict[str, None] = {}
    answered: dict[str, int] = {}
    for place, message in enumerate(messages):
        if message.role == "tool":
            _check_answer(place, message.call_id, waiting, answered)
            waiting.pop(message.call_id)
            answered[message.call_id] = place
            continue
        _check_answered(f"messages.[{place}].role", waiting)
        waiting, answered = dict.fromkeys(call.id for call in message.calls), {}
    _check_answered("messages", waiting)


def _check_answer(place: int, call_id: str, waiting: dict[str, None], answered: dict[str, int]) -> None:
    """Check that a tool message answers a call that waits for it."""
    where = f"messages.[{place}].tool_call_id"
    if not waiting and not answered:
        problem = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
        raise BadRequest(f"Invalid parameter: {problem}", f"messages.[{place}].role")
    if call_id in answered:
        problem = f"Duplicate value for 'tool_call_id' of '{call_id}', in messages[{answered[call_id]}] and messages[{place}]."
        raise BadRequest(f"Invalid parameter: {problem}", where)
    if call_id not in waiting:
        problem = f"'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
        raise BadRequest(f"Invalid parameter: {problem}", where)


def _check_answered(where: str, waiting: dict[str, None]) -> None:
    """Check that no call is left without an answer; `where`: the message that comes in its place."""
    if waiting:
        problem = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        missing = f"The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        raise BadRequest(f"{problem} {missing}", where)
