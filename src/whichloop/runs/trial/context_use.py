"""What a trial does with its context, counted by request, and its price; `whichloop.metrics.record_table` says what counts mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from whichloop.metrics.record_table import DISTANCES, MIN_CACHED_TOKENS, distance_range
from whichloop.models.feedback import shared_length
from whichloop.models.prices import Price
from whichloop.models.receipts import ReceiptEntry, Truth
from whichloop.protocol import Message, Plan, Reply, Request, Role
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.tokens import CHARS_PER_TOKEN, estimate_input, estimate_usage, schema_text

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
        self._entries_read = 0
        self._prompts = 0
        self._given_at: dict[str, int] = {}
        """Planned call → how many prompts had been sent when its result was given last."""

    @property
    def unshown(self) -> int:
        """Results that the first prompt which needed them did not show."""
        return self.needed[DISTANCES[0]] - self.shown[DISTANCES[0]]

    def count(self, request: Request, shown_calls: Sequence[str]) -> None:
        """Count one prompt. `shown_calls`: the planned calls whose results it shows."""
        if request.scope or request.role not in NEEDING_ROLES:
            return
        for entry in self._issued[self._entries_read :]:
            call, ok = self._planned.get(entry.call, ("", False))
            if call and entry.ok is ok:
                self._given_at[call] = self._prompts
        self._entries_read = len(self._issued)
        for call in shown_calls:  # also one whose place an alternative took, or that was made from a wrong result
            self._given_at.setdefault(call, self._prompts)
        self._prompts += 1
        for call, given_at in self._given_at.items():
            distance = distance_range(self._prompts - given_at)
            self.needed[distance] += 1
            self.shown[distance] += call in shown_calls


class _Part:
    """A part of a prompt, a message or what stands before all messages, and what prompts have gone on with after it."""

    __slots__ = ("content", "following")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.following: dict[Message | str, _Part] = {}

    def grown(self, parts: Sequence[Message | str]) -> _Part:
        """Add parts one behind the other; return the last of them, or this one if there are none."""
        end = self
        for part in parts:
            end.following[part] = end = _Part(_content(part))
        return end


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
        self._last: tuple[str, tuple[Message, ...], int] | None = None
        """What stood before the last prompt's messages, the messages, and the prompt's bytes; None before the first prompt."""
        self._end = self._root
        """The last of its parts that is in the tree already."""
        self._behind: list[Message | str] = []
        """Its parts after that, which no other prompt has: they are put into the tree once another prompt may have them."""

    def count(self, request: Request) -> None:
        """Count one prompt."""
        head, messages, last = self._before_messages(request), request.messages, self._last
        if last is None:
            self._behind += (head, *messages)
            self._last = (head, messages, sum(map(_size, self._behind)))
            return
        _, last_messages, repeated = last
        goes_on = head == last[0] and messages[: len(last_messages)] == last_messages
        if goes_on and not self._end.following:
            new = messages[len(last_messages) :]
            self._behind += new
            size = repeated + sum(map(_size, new))
        else:
            self._end = self._end.grown(self._behind)
            self._behind.clear()
            repeated, size = (
                self._sort_in(messages[len(last_messages) :], repeated) if goes_on else self._sort_in((head, *messages))
            )
        self.later_bytes += size
        self.repeated_bytes += repeated
        self.cacheable_bytes += repeated if repeated >= MIN_CACHED_BYTES else 0
        self._last = (head, messages, size)

    def _sort_in(self, parts: Sequence[Message | str], behind_last: int | None = None) -> tuple[int, int]:
        """Put a prompt into the tree, and return how many bytes it repeats, and all of its bytes.

        `parts`: all of the prompt, or what follows on the last prompt, which had `behind_last` bytes.
        """
        part, repeated = (self._root, 0) if behind_last is None else (self._end, behind_last)
        place = 0
        while place < len(parts) and parts[place] in part.following:
            part = part.following[parts[place]]
            repeated += len(part.content)
            place += 1
        new = parts[place:]
        size = repeated + sum(map(_size, new))
        if new and part.following:
            repeated += _most_in_common(_content(new[0]), [other.content for other in part.following.values()])
        self._end = part.grown(new)
        return repeated, size

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

    def count(self, request: Request, shown_calls: Sequence[str]) -> None:
        """Count one prompt that was answered. `shown_calls`: the planned calls whose results it shows."""
        self.prefixes.count(request)
        if self.retention is not None:
            self.retention.count(request, shown_calls)

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
        if other[: most + 1] == content[: most + 1]:
            most = shared_length(content, other, most)
    return most


def _size(part: Message | str) -> int:
    """Return the length of a part's content in bytes."""
    if isinstance(part, str) or part.calls or not part.content.isascii():
        return len(_content(part))
    return len(part.role) + len(part.call_id.encode(errors="surrogatepass")) + len(part.content) + 2


def _content(part: Message | str) -> bytes:
    """Return what a provider reads of a part of a prompt."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    calls = "".join([f"\n{call.id} {call.name} {call.arguments}" for call in part.calls]) if part.calls else ""
    return f"{part.role} {part.call_id}\n{part.content}{calls}".encode(errors="surrogatepass")


class Pricing:
    """Gives the replies of one trial a cost, from a prompt cache too where that price is known.

    From the cache comes what `cacheable_tokens` counts: beginnings of at least 1,024 tokens that an earlier prompt had, too.
    """

    def __init__(self, price: Price) -> None:
        self._price = price
        self._prefixes = None if price.cached_input is None else PrefixCount()

    def __call__(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with what it costs; its tokens are estimated where nobody counted them."""
        usage = reply.usage or estimate_usage(estimate_input(request), reply)
        if self._prefixes is not None:
            before = self._prefixes.cacheable_bytes
            self._prefixes.count(request)
            cached = (self._prefixes.cacheable_bytes - before) // CHARS_PER_TOKEN
            usage = replace(usage, cached_tokens=min(cached, usage.input_tokens))
        return replace(reply, usage=self._price.on(usage))
