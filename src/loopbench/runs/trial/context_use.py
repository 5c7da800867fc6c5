"""Counting, request by request, what a trial does with its context: see `loopbench.metrics.context` for what the counts mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from loopbench.metrics.context import DISTANCES, MIN_CACHED_TOKENS, distance_range
from loopbench.models.receipts import ReceiptEntry, Truth
from loopbench.models.tokens import CHARS_PER_TOKEN, schema_text
from loopbench.protocol import Message, Plan, Request, Role
from loopbench.protocol.digest import canonical_json

NEEDING_ROLES = frozenset({Role.DECIDE, Role.PLAN, Role.REFLECT, Role.VALIDATE, Role.ANSWER})
"""Roles that ask what is left to do, or for the answer: their prompts need every result."""
MIN_CACHED_BYTES = MIN_CACHED_TOKENS * CHARS_PER_TOKEN


class RetentionCount:
    """How often the prompts of one trial needed a result, and how often they showed it, by distance."""

    def __init__(self, plan: Plan, oracle: Mapping[str, Truth], issued: Sequence[ReceiptEntry]) -> None:
        """`issued`: the trial's receipts, a list that grows as tools run."""
        self.needed: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()
        self._planned = {oracle[call.id].call: (call.id, not call.fails) for call in plan.calls if call.id in oracle}
        self._issued = issued
        self._read = 0
        self._prompts = 0
        self._given: dict[str, int] = {}
        """Planned call → how many prompts had been sent when its result was given last."""

    @property
    def unshown(self) -> int:
        """Results that the first prompt which needed them did not show."""
        return self.needed[DISTANCES[0]] - self.shown[DISTANCES[0]]

    def count(self, request: Request, shown: Sequence[str]) -> None:
        """Count one prompt. `shown`: the planned calls whose results it shows."""
        if request.scope or request.role not in NEEDING_ROLES:
            return
        for entry in self._issued[self._read :]:
            call, ok = self._planned.get(entry.call, ("", False))
            if call and entry.ok is ok:
                self._given[call] = self._prompts
        self._read = len(self._issued)
        for call in shown:  # also one whose place an alternative took, or that was made from a wrong result
            self._given.setdefault(call, self._prompts)
        self._prompts += 1
        for call, given in self._given.items():
            distance = distance_range(self._prompts - given)
            self.needed[distance] += 1
            self.shown[distance] += call in shown


class _Part:
    """A part of a prompt, a message or what stands before all messages, and what prompts have gone on with after it."""

    __slots__ = ("content", "following")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.following: dict[Message | str, _Part] = {}


class PrefixCount:
    """How much of a trial's prompts repeats the beginning of an earlier one.

    Prompts are kept as a tree with a level for each message. One that goes on where the last one ended costs only what it adds; any
    other costs a look-up for each of its messages. What all prompts repeat together does not depend on their order, but for which
    of them is the first.
    """

    def __init__(self) -> None:
        self.later_bytes = 0
        """Of all prompts after the first."""
        self.repeated_bytes = 0
        """Of those, bytes that repeat the beginning of an earlier prompt."""
        self.cacheable_bytes = 0
        """The same without beginnings that are too short for a provider's cache."""
        self._root = _Part(b"")
        self._head: tuple[object, object, str] = ((), None, "")
        self._last: tuple[str, tuple[Message, ...], _Part, int] = ("", (), self._root, 0)
        """What stood before the last prompt's messages, the messages, the last of them in the tree, and the prompt's bytes."""

    def count(self, request: Request) -> None:
        """Count one prompt."""
        is_first = not self._root.following
        head, messages = self._before_messages(request), request.messages
        known_head, known, part, repeated = self._last
        if known and head == known_head and messages[: len(known)] == known:
            parts: Sequence[Message | str] = messages[len(known) :]
        else:
            part, repeated, parts = self._root, 0, (head, *messages)
        place = 0
        while place < len(parts) and parts[place] in part.following:
            part = part.following[parts[place]]
            repeated += len(part.content)
            place += 1
        size = repeated
        for number, new in enumerate(parts[place:]):
            content = _content(new)
            if number == 0 and part.following:
                repeated += _most_in_common(content, [other.content for other in part.following.values()])
            size += len(content)
            part.following[new] = part = _Part(content)
        self._last = (head, messages, part, size)
        if not is_first:
            self.later_bytes += size
            self.repeated_bytes += repeated
            self.cacheable_bytes += repeated if repeated >= MIN_CACHED_BYTES else 0

    def _before_messages(self, request: Request) -> str:
        """Return tools and response schema as text, made once for the very same ones: a trial's requests mostly have those."""
        if not request.tools and request.response_schema is None:
            return ""
        tools, schema, text = self._head
        if tools is not request.tools or schema is not request.response_schema:
            offered = ",".join(_tool_text(tool.name, tool.description, schema_text(tool.parameters)) for tool in request.tools)
            wanted = "null" if request.response_schema is None else schema_text(request.response_schema)
            text = f"[[{offered}],{wanted}]"
            self._head = (request.tools, request.response_schema, text)
        return text


@lru_cache(maxsize=4096)
def _tool_text(name: str, description: str, parameters: str) -> str:
    """Return a tool as JSON. `parameters`: its schema as JSON."""
    return f"[{canonical_json(name)},{canonical_json(description)},{parameters}]"


class ContextCount:
    """Both counts of one trial."""

    def __init__(self) -> None:
        self.prefixes = PrefixCount()
        self.retention: RetentionCount | None = None
        """None without a scripted model: nobody else says what a prompt shows."""

    def count(self, request: Request, shown: Sequence[str]) -> None:
        """Count one prompt that was answered. `shown`: the planned calls whose results it shows."""
        self.prefixes.count(request)
        if self.retention is not None:
            self.retention.count(request, shown)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a record that say what the trial did with its context."""
        prefixes, retention = self.prefixes, self.retention
        return {
            "results_needed": {} if retention is None else _in_order(retention.needed),
            "results_shown": {} if retention is None else _in_order(retention.shown),
            "later_bytes": prefixes.later_bytes,
            "repeated_bytes": prefixes.repeated_bytes,
            "cacheable_tokens": prefixes.cacheable_bytes // CHARS_PER_TOKEN,
        }


def _in_order(counted: Mapping[str, int]) -> dict[str, int]:
    """Return the counts from the nearest range on."""
    return {distance: counted[distance] for distance in DISTANCES if distance in counted}


def _most_in_common(content: bytes, others: Sequence[bytes]) -> int:
    """Return the length of the longest beginning that a content shares with any of the others."""
    most = 0
    for other in others:
        if other[: most + 1] != content[: most + 1]:
            continue
        high = min(len(content), len(other))
        while most < high:
            middle = (most + high + 1) // 2
            if content[:middle] == other[:middle]:
                most = middle
            else:
                high = middle - 1
    return most


def _content(part: Message | str) -> bytes:
    """Return what a provider reads of a part of a prompt."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    calls = "".join([f"\n{call.id} {call.name} {call.arguments}" for call in part.calls]) if part.calls else ""
    return f"{part.role} {part.call_id}\n{part.content}{calls}".encode(errors="surrogatepass")
