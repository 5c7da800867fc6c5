"""Receipts: how a scripted model knows what the prompt shows it.

Looking for a result's value in the prompt does not work: "9" may stand in the question too. So the metered toolbox puts every
result that a tool really gave between the two marks of a receipt, `[r:CALL.CONTENT] 9 [CALL.CONTENT:r]`. A planned call counts as
known iff its receipt stands in the request and, beside a mark of it, each value that the plan goes on to use (see `legible_parts`).
There is a mark on either side, because a loop may cut off the end of a result or its beginning. Plain characters, so that JSON,
JSON in JSON, XML and prose carry them alike. An error that the tool itself raised has them too: a task may want the model to learn
from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from whichloop.protocol import Message, ToolCall, WireError, render_value
from whichloop.protocol.digest import canonical_json, sha256
from whichloop.protocol.receipts import MARK, GivenResult, Path, Sighting, legible_parts, receipt_of
from whichloop.protocol.wire import read_call


class CallKey(NamedTuple):
    """What tells calls apart."""

    text: str
    """Equal for equal calls, in whatever order the arguments were given."""
    digest: str
    """CALL: six hex digits of the text."""


def call_key(tool: str, arguments: Mapping[str, object]) -> CallKey:
    """Return the key of a call. A trial asks for each of its calls' several times, and a run for those of its tasks."""
    if type(arguments) is dict and PLAIN.issuperset(map(type, arguments)) and PLAIN.issuperset(map(type, arguments.values())):
        return _key_of_plain(tool, *arguments, *arguments.values())
    return _key_of(tool, arguments)


def call_digest(tool: str, arguments: Mapping[str, object]) -> str:
    """Return six hex digits of tool and canonical arguments."""
    return call_key(tool, arguments).digest


PLAIN = frozenset({str, int, bool, type(None)})
"""Types of values that are written alike where they are equal and of one type; not so floats: -0.0 equals 0.0."""


@lru_cache(maxsize=2048, typed=True)
def _key_of_plain(tool: str, *parts: Any) -> CallKey:
    """Return the key of a call of plain arguments; `parts`: their names, then their values."""
    names = len(parts) // 2
    return _key_of(tool, dict(zip(parts[:names], parts[names:], strict=True)))


def _key_of(tool: str, arguments: Mapping[str, object]) -> CallKey:
    try:
        text = canonical_json([tool, arguments])
    except (TypeError, ValueError, RecursionError):  # what JSON cannot say was not planned either
        text = f"{tool}({render_value(arguments)})"
    return CallKey(text, sha256(text)[:6])


def content_digest(text: str) -> str:
    """Return four hex digits of the text that a tool returned."""
    return sha256(text)[:4]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the oracle, a replay of the plan on fresh tools, says of one planned call."""

    call: str
    """CALL digest of tool and resolved arguments."""
    content: str
    """CONTENT digest of the true result."""


class ReceiptEntry(NamedTuple):
    """A result that was given out with a receipt."""

    call: str
    content: str
    value: Any
    ok: bool
    """False: the tool raised."""
    text: str
    """What the tool gave, as text."""

    @property
    def key(self) -> str:
        """CALL.CONTENT, as both marks have it."""
        return f"{self.call}.{self.content}"

    def around(self, text: str) -> str:
        """Return a text between the receipt's marks."""
        return f"[r:{self.key}] {text} [{self.key}:r]"

    @property
    def signed(self) -> str:
        """What a loop sees of the result."""
        return self.around(self.text)


class Form(NamedTuple):
    """A call that a planned one stands for, its references filled in."""

    call: ToolCall
    digest: str
    """CALL."""
    option: int
    """0 for the planned call itself, 1 and on for its alternatives."""


class Ledger:
    """All receipts of one trial."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], ReceiptEntry] = {}
        self.issued: list[ReceiptEntry] = []
        """In order."""
        self.filled: dict[tuple[object, ...], Form | None] = {}
        """Planned calls with their references filled in, worked out once (None: they cannot be); keyed by the identity of the
        planned call and by names and identities of the results before it, which plan and entries keep alive."""
        self.listed: dict[tuple[object, ...], list[Form]] = {}
        """The same for all calls that may stand for a planned one."""
        self.forms: dict[str, list[Form]] = {}
        """Planned id → the calls that it has stood for so far, the latest first."""
        self.rests_on: dict[tuple[int, str, str], Mapping[Path, frozenset[str | None]]] = {}
        """The parts of results that an answer without references rests on, worked out once; by plan, planned call and CONTENT."""
        self.last_shown: dict[str, tuple[Any, ...]] = {}
        """CALL digest → form, entry, sightings and uses of its result in the last prompt, and what the prompt view made of them."""
        self._parts_shown: dict[tuple[object, ...], Mapping[Path, float]] = {}
        """What `legible_parts` said: prompts show the same again and again."""
        self._vouched: set[tuple[str, str, str]] = set()

    def sign(self, call: str, text: str, value: object, ok: bool) -> ReceiptEntry:
        """Add the receipt of a call. `call`: its digest, taken before it ran."""
        entry = ReceiptEntry(call, content_digest(text), value, ok, text)
        self._entries[entry.call, entry.content] = entry
        self.issued.append(entry)
        return entry

    def find(self, call: str, content: str) -> ReceiptEntry | None:
        return self._entries.get((call, content))

    def vouch(self, entry: ReceiptEntry, text: str) -> None:
        """Note that a text shows all of a result, in whatever words."""
        self._vouched.add((entry.call, entry.content, text.strip()))

    def parts_shown(self, entry: ReceiptEntry, sighting: Sighting, paths: tuple[Path, ...]) -> Mapping[Path, float]:
        """Return the paths into a result whose values a sighting of it shows, with the share of its text that ends with each."""
        key = (entry.call, entry.content, sighting.side, sighting.text, paths)
        parts = self._parts_shown.get(key)
        if parts is None:
            if (*key[:2], sighting.text) in self._vouched:
                parts = dict.fromkeys(paths, 1.0)
            else:
                parts = legible_parts(GivenResult(entry.text.strip(), entry.value), sighting.text, sighting.side, paths)
            self._parts_shown[key] = parts
        return parts


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
