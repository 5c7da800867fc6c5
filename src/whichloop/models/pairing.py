"""Which call a prompt gives a result for, by the ids of native calls, and whose result it is, by its receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from whichloop.protocol import Message, WireError
from whichloop.protocol.receipts import MARK, receipt_of
from whichloop.protocol.wire import read_call

from .receipts import Ledger, call_digest


class PairedResult(NamedTuple):
    """A result that a prompt gives for one of several calls of a reply."""

    reply: int
    """0-based, of the message with the calls."""
    place: int
    """0-based, of its message."""
    calls: frozenset[str]
    """CALL digests of the calls with its id: more than one where ids are the same."""
    receipt: str
    """CALL.CONTENT: whose result it is."""

    @property
    def owner(self) -> str:
        """CALL digest of the call that gave it."""
        return self.receipt.partition(".")[0]

    @property
    def is_right(self) -> bool:
        """Whether it is the result of a call with its id."""
        return self.owner in self.calls


def paired_results(messages: Sequence[Message]) -> Iterable[PairedResult]:
    """Return the results that messages give for the calls of replies with several; other results cannot be another call's."""
    return _paired(messages) if any(map(_calls, messages)) else ()


_calls = attrgetter("calls")


def _paired(messages: Sequence[Message]) -> Iterator[PairedResult]:
    calls_by_id: dict[str, frozenset[str]] = {}
    reply = 0
    for place, message in enumerate(messages):
        if message.calls:
            calls_by_id, reply = _calls_by_id(message) if len(message.calls) > 1 else {}, place
        elif calls_by_id and message.role == "tool" and message.call_id in calls_by_id:
            mark = MARK.search(message.content)
            if mark is not None:
                yield PairedResult(reply, place, calls_by_id[message.call_id], receipt_of(mark))


def _calls_by_id(message: Message) -> dict[str, frozenset[str]]:
    digests: dict[str, frozenset[str]] = {}
    for native in message.calls:
        try:
            call = read_call(native)
        except WireError:  # no result can be that of a call that nobody can read
            continue
        digests[native.id] = digests.get(native.id, frozenset()) | {call_digest(call.name, call.arguments)}
    return digests


def believed(messages: Sequence[Message], ledger: Ledger) -> Sequence[Message]:
    """Return messages as a model takes them: a result that is given for another call counts as that call's.

    It gets a receipt that says so, of a content that its call never gave. This holds for results that a reply's calls have
    exchanged; where one is given twice, or is that of an earlier reply, this gives it away, and the model calls again.
    """
    paired = tuple(paired_results(messages))
    if not paired:
        return messages
    calls_made, results_given = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for one in paired:
        calls_made.update((one.reply, call) for call in one.calls)
        results_given[one.reply, one.owner] += 1
    odd = {reply for reply, _ in (calls_made - results_given) + (results_given - calls_made)}
    swapped = [one for one in paired if not one.is_right and len(one.calls) == 1 and one.reply not in odd]
    if not swapped:
        return messages
    believed_messages = list(messages)
    for one in swapped:
        call, _, content = one.receipt.partition(".")
        entry = ledger.find(call, content)
        if entry is None:
            continue
        (meant,) = one.calls
        entry_taken = ledger.find(meant, content) or ledger.sign(meant, entry.text, entry.value, entry.ok)
        believed_messages[one.place] = replace(
            believed_messages[one.place], content=believed_messages[one.place].content.replace(entry.key, entry_taken.key)
        )
    return believed_messages
