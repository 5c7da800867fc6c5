"""What the request of a retry shows of the failure before it, read as the scripted model reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from whichloop.models.feedback import COMPLAINTS, FaultSigns, parts_shown, signs_of_provider, tellable_parts, words_of
from whichloop.protocol import Request

from .attempts import Attempt
from .clearing import Retry
from .replies import KIND_OF_HINT


class RightForms(NamedTuple):
    """What the replies of a trial look like that went through."""

    replies: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    """Role → words of the format, and words of the arguments' names."""
    tools: Mapping[str, tuple[str, ...]]
    """Tool → names of its arguments."""


def retry_of(before: Attempt, now: Attempt, forms: RightForms) -> Retry:
    """Return what the request of a retry shows of what was wrong, and what there was to show."""
    signs, tool_error = _signs(before, forms)
    shown_parts = parts_shown(Request(before.messages), Request(now.messages), before.reply, signs, tool_error)
    tellable = tellable_parts(signs, tool_error)
    return Retry(shown_parts & tellable, tellable)


def _signs(failed: Attempt, forms: RightForms) -> tuple[FaultSigns, str]:
    """Return the words by which a text would show the failure, and what the tool gave back.

    The right reply is not known, above all where no retry gave it; what other replies of the trial had stands for it.
    """
    if failed.error:
        return signs_of_provider(failed.error_text), ""
    if failed.unreadable:
        frame, arguments = forms.replies.get(failed.role, (frozenset(), frozenset()))
        called = frozenset(words_of(*(call.name for call in failed.reply.calls)))
        return FaultSigns(called | frame, frozenset(words_of(failed.wire_error or "")), frame | arguments), ""
    call = next((call for call in failed.calls if call.is_refused), None)
    if call is None:
        return FaultSigns(), ""
    call_words = frozenset(words_of(call.tool, *(name for name, _ in call.shape)))
    expected = frozenset(words_of(*forms.tools.get(call.tool, tuple(forms.tools) if call.hint == "unknown" else ())))
    return FaultSigns(call_words, frozenset(), expected, "", COMPLAINTS.get(KIND_OF_HINT[call.hint], frozenset())), call.last_error


def right_forms(attempts: Sequence[Attempt]) -> RightForms:
    """Return what the first reply of each role that went through looks like, and each tool's arguments."""
    replies: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    tools: dict[str, tuple[str, ...]] = {}
    for attempt in attempts:
        if attempt.failed or attempt.wire or not attempt.states:
            continue
        if attempt.role not in replies:
            names = (name for call in attempt.calls for name, _ in call.shape)
            replies[attempt.role] = attempt.frame, frozenset(words_of(*names))
        tools |= {call.tool: tuple(name for name, _ in call.shape) for call in attempt.calls}
    return RightForms(replies, tools)
