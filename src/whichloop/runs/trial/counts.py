"""What a trial does with its context and with the model's calls, and its time, price and limits; `metrics.measures` says what
the counts mean."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from whichloop.metrics.arm_info import exceeds
from whichloop.metrics.measures import DISTANCES, MIN_CACHED_TOKENS, distance_range
from whichloop.models.faults import IMPLICIT
from whichloop.models.metering import Budget, Meter, Pricing, Waits
from whichloop.models.prices import Price
from whichloop.models.receipts import ReceiptEntry, Truth, call_digest, paired_results
from whichloop.models.recording import RecordedModel
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Message, Move, Plan, Recovery, Reply, Request, Role, ToolCall, Usage
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.model import CHARS_PER_TOKEN, estimate_input, estimate_usage, schema_text
from whichloop.protocol.receipts import common_start

NEEDING_ROLES = frozenset({Role.DECIDE, Role.PLAN, Role.REFLECT, Role.VALIDATE, Role.ANSWER})
"""Roles that ask what is left to do, or for the answer: their prompts need every result."""
MIN_CACHED_BYTES = MIN_CACHED_TOKENS * CHARS_PER_TOKEN
RANGES = ("", *map(distance_range, range(1, 20)))
"""The range of each distance; the last one holds for all that are longer."""
MAX_PROMPTS = 256
"""Prompts that later ones are compared with, the latest: a loop that asks without end must not slow down without end."""


class CallUse:
    """How often the calls of a trial's model were lost, done twice, or given another call's result."""

    def __init__(self) -> None:
        self.asked = self.lost = self._doubled = 0
        self.planned: Mapping[str, str] = {}
        """CALL digest → planned call, with a scripted model."""
        self._waiting: dict[str, list[str]] = {}
        """Scope → CALL digests of calls that its last reply asked for, and that have not run yet."""
        self._unrun = 0
        """Calls that the loop went on without, though another one may have run in the place of each."""
        self._unasked_new = self._unasked_again = 0
        """Runs that no reply asked for, of calls that had never run, and of those that had given a result. Each stands for one that
        did not run, if there is one; else the second kind is double."""
        self._retries: dict[str, int] = {}
        """Scope → runs that the model has asked for by way of recovery, of whatever call."""
        self._tried = set[str]()
        self._gave = set[str]()
        self._paired: dict[tuple[str, str], bool] = {}
        """Id and receipt → whether the result was that of a call with the id."""
        self._said = set[str]()
        """Calls that any reply has asked for."""
        self._unsaid = set[str]()
        """Calls that ran though none had, and whose results no prompt has shown."""
        self._shown_unsaid = 0

    def count(self, request: Request, move: Move | None, calls: Sequence[ToolCall] | None, asked: Sequence[ToolCall]) -> None:
        """Count a reply. `calls`: those of its act that can run; None for any other move. `asked`: all that it asks for."""
        scope = request.scope
        for name in [scope] if scope else list(self._waiting):  # a request without a scope runs beside no other
            unrun = len(self._waiting.pop(name, ()))
            self.lost += unrun
            self.asked += unrun
            self._unrun += unrun
        if not any(self._waiting.values()):
            self._doubled += self._double_runs(self._unrun)
            self._unrun = self._unasked_new = self._unasked_again = 0
        if self._unsaid:
            text = "\n".join(message.content for message in request.messages)
            shown = {digest for digest in self._unsaid if f"[r:{digest}." in text or f"[{digest}." in text}
            self._unsaid -= shown
            self._shown_unsaid += len(shown)
        self._said.update(call_digest(call.name, call.arguments) for call in asked)
        if self.planned:
            for one in paired_results(request.messages):
                self._paired.setdefault((request.messages[one.place].call_id, one.receipt), one.is_right)
        if isinstance(move, Recovery) and move.strategy in ("retry", "alternative_tool"):
            self._retries[scope] = self._retries.get(scope, 0) + 1
        if calls is not None:
            self._waiting[scope] = [call_digest(call.name, call.arguments) for call in calls]

    def _double_runs(self, unrun: int) -> int:
        """Return how many runs that no reply asked for are more than the calls, so many, that did not run themselves.

        A loop that alters a call makes one for the one that it altered, and none too many, even if it made the same one before.
        """
        return max(0, self._unasked_again - max(0, unrun - self._unasked_new))

    def ran(self, digest: str, gave: bool, fault: str | None) -> None:
        """Count a run of a call. `gave`: it gave a result.

        What a loop runs again by itself after it had given its result is double whatever comes of it: whether a second booking is
        taken or refused is the tool's doing.
        """
        for waiting in self._waiting.values():
            if digest in waiting:
                waiting.remove(digest)
                self.asked += 1
                break
        else:
            for scope, retries in self._retries.items():
                if retries:
                    self._retries[scope] -= 1
                    break
            else:
                self._unasked_new += digest not in self._tried
                self._unasked_again += digest in self._gave
                if self.planned and digest not in self._said:
                    self._unsaid.add(digest)
        self._tried.add(digest)
        if gave and fault not in IMPLICIT:  # what nobody takes for the result may be asked for again
            self._gave.add(digest)

    def fields(self, unshown: int, tunnel: Tunnel | None) -> dict[str, int]:
        """Return the counts by name, without those of which nothing came up.

        `unshown`: results that the first prompt which needed them did not show.
        """
        counted = {
            "asked": self.asked,
            "lost": min(self.lost + unshown, self.asked),
            "doubled": self._doubled + self._double_runs(self._unrun + sum(map(len, self._waiting.values()))),
            "paired": len(self._paired),
            "mispaired": sum(not is_right for is_right in self._paired.values()),
            "early": 0 if tunnel is None else tunnel.at_once.chances,
            "overlapped": 0 if tunnel is None else tunnel.at_once.overlaps,
            "not_asked_for": self._shown_unsaid,
        }
        return {name: number for name, number in counted.items() if number}


class RetentionCount:
    """How often the prompts of one trial needed a result, and how often they showed it, by distance."""

    def __init__(self, plan: Plan, oracle: Mapping[str, Truth], issued: Sequence[ReceiptEntry]) -> None:
        """`issued`: the trial's receipts, a list that grows as tools run."""
        self.needed = defaultdict[str, int](int)
        self.shown = defaultdict[str, int](int)
        self._planned = {oracle[call.id].call: (call.id, not call.fails) for call in plan.calls if call.id in oracle}
        self._issued = issued
        self._entries_read = self._prompts = 0
        self._given_at: dict[str, int] = {}
        """Planned call → how many prompts had been sent when its result was given last."""

    @property
    def unshown(self) -> int:
        """Results that the first prompt which needed them did not show."""
        return self.needed.get(DISTANCES[0], 0) - self.shown.get(DISTANCES[0], 0)

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
            distance = RANGES[min(self._prompts - given_at, len(RANGES) - 1)]
            self.needed[distance] += 1
            if call in shown_calls:
                self.shown[distance] += 1

    def fields(self) -> dict[str, dict[str, int]]:
        """Return both counts as a record has them, from the nearest range on."""
        needed = {distance: self.needed[distance] for distance in DISTANCES if distance in self.needed}
        return {"results_needed": needed, "results_shown": {distance: self.shown.get(distance, 0) for distance in needed}}


class PrefixCount:
    """How many bytes of a trial's prompts repeat the beginning of an earlier one, whole messages first."""

    def __init__(self) -> None:
        self.later_bytes = 0
        """Of all prompts after the first."""
        self.repeated_bytes = 0
        """Of those, bytes that repeat the beginning of an earlier prompt."""
        self.cacheable_bytes = 0
        """The same without beginnings that are too short for a provider's cache."""
        self._prompts: list[tuple[tuple[Message | str, ...], int]] = []
        """Earlier prompts with their bytes, but for those that another one begins with."""

    def count(self, request: Request) -> None:
        parts: tuple[Message | str, ...] = (_before_messages(request), *request.messages)
        is_first, is_new, size, repeated = not self._prompts, True, 0, 0
        for place in range(len(self._prompts) - 1, -1, -1):
            earlier, shared = self._prompts[place]
            if parts[: len(earlier)] == earlier:
                size = shared + sum(map(_size, parts[len(earlier) :]))
                del self._prompts[place]
            else:
                same = next((n for n, pair in enumerate(zip(parts, earlier, strict=False)) if pair[0] != pair[1]), len(parts))
                shared = sum(map(_size, parts[:same]))
                shared += common_start(_content(parts[same]), _content(earlier[same])) if same < len(parts) else 0
                is_new = is_new and same < len(parts)
            repeated = max(repeated, shared)
        size = size or sum(map(_size, parts))
        if is_new:
            self._prompts.append((parts, size))
            del self._prompts[:-MAX_PROMPTS]
        if not is_first:
            self.later_bytes += size
            self.repeated_bytes += repeated
            self.cacheable_bytes += repeated if repeated >= MIN_CACHED_BYTES else 0


def _before_messages(request: Request) -> str:
    """Return tools and response schema as text."""
    if not request.tools and request.response_schema is None:
        return ""
    offered = [
        f"[{canonical_json(tool.name)},{canonical_json(tool.description)},{schema_text(tool.parameters)}]" for tool in request.tools
    ]
    wanted = "null" if request.response_schema is None else schema_text(request.response_schema)
    return f"[[{','.join(offered)}],{wanted}]"


def _size(part: Message | str) -> int:
    return len(_content(part))


def _content(part: Message | str) -> bytes:
    """Return what a provider reads of a part of a prompt."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    calls = "".join([f"\n{call.id} {call.name} {call.arguments}" for call in part.calls]) if part.calls else ""
    return f"{part.role} {part.call_id}\n{part.content}{calls}".encode(errors="surrogatepass")


def pricing_of(price: Price) -> Pricing:
    """Return what gives the replies of one trial a cost, from a prompt cache too where that price is known.

    From the cache comes what `cacheable_tokens` counts: beginnings of at least 1,024 tokens that an earlier prompt had, too.
    Tokens are estimated where nobody counted them.
    """
    prefixes = None if price.cached_input is None else PrefixCount()

    def priced(request: Request, reply: Reply) -> Reply:
        usage = reply.usage or estimate_usage(estimate_input(request), reply)
        if prefixes is not None:
            before = prefixes.cacheable_bytes
            prefixes.count(request)
            cached = (prefixes.cacheable_bytes - before) // CHARS_PER_TOKEN
            usage = replace(usage, cached_tokens=min(cached, usage.input_tokens))
        return replace(reply, usage=price.on(usage))

    return priced


class TrialClock:
    """The time of one trial."""

    def __init__(self, started: float, tunnel: Tunnel | None, is_scripted: bool) -> None:
        """`started`: on the clock of `time.perf_counter`."""
        self._is_scripted = is_scripted
        self.started, self.waits, self._tunnel = started, Waits(), tunnel
        self.recorded: RecordedModel | None = None
        self.wall_s = 0.0
        """Seconds until the loop's end, on the wall; 0 before."""

    @property
    def seconds(self) -> float:
        """Simulated time; with a real model also wall time, without what a provider's failures and our limits cost, and with the
        recorded time of replayed replies."""
        simulated_s = 0.0 if self._tunnel is None else self._tunnel.simulated_s
        if self._is_scripted and self._tunnel is not None and not self._tunnel.real_time:
            return simulated_s
        wall_s = self.wall_s or time.perf_counter() - self.started
        replayed_s = 0.0 if self.recorded is None else self.recorded.replayed_s
        return max(0.0, wall_s - self.waits.seconds) + replayed_s + simulated_s  # the two are read off different clocks


class TrialMeter(Meter):
    """The meter of a trial: it refuses a call beyond a limit of the trial, and says whether the last one went beyond.

    A limit in dollars counts as every comparison of costs does: as if nothing had come from a cache or a recording.
    """

    def __init__(self, budget: Budget, run: Meter, used: Callable[[], Usage], clock: TrialClock) -> None:
        """`run`: the meter of the whole run. `used`: what the trial has used so far."""
        super().__init__(budget, run)
        self._used, self._clock = used, clock

    @property
    def exhausted(self) -> str:
        """Why no further call is made, in words; empty while one is.

        A trial that has spent a limit to the last token may go on: its next call decides.
        """
        if self.budget.is_unlimited:
            return ""
        calls = self.budget.calls
        return f"budget of {calls:,} model calls used up" if calls is not None and self.calls >= calls else self.exceeded

    @property
    def exceeded(self) -> str:
        """The limit beyond which the trial went, in words; empty if it kept to all of them."""
        budget, usage = self.budget, self._used()
        if budget.tokens is not None and exceeds(usage.total_tokens, budget.tokens):
            return f"budget of {budget.tokens:,} tokens exceeded: {usage.total_tokens:,}"
        spent = (usage.cost_usd if usage.nominal_usd is None else usage.nominal_usd) or 0.0
        if budget.dollars is not None and exceeds(spent, budget.dollars):
            return f"budget of {budget.dollars:.12g} dollars exceeded: {spent:.6g}"
        if budget.seconds is not None and exceeds(seconds := self._clock.seconds, budget.seconds):
            return f"budget of {budget.seconds:.12g} seconds exceeded: {seconds:.6g}"
        return ""
