"""Receipts: how a scripted model knows what the prompt shows it.

Looking for a result's value in the prompt does not work: "9" may stand in the question too. So the metered toolbox puts every
result that a tool really gave between the two marks of a receipt, `[r:CALL.CONTENT] 9 [CALL.CONTENT:r]`. A planned call counts as
known iff its receipt stands in the request and, beside a mark of it, each value that the plan goes on to use (see `legible_parts`).
There is a mark on either side, because a loop may cut off the end of a result or its beginning. Plain characters, so that JSON,
JSON in JSON, XML and prose carry them alike. An error that the tool itself raised has them too: a task may want the model to learn
from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from whichloop.protocol import Message, Plan, PlannedCall, ToolCall, WireError, render_value, resolve
from whichloop.protocol.json_text import canonical_json, sha256
from whichloop.protocol.receipts import MARK, Path, Sighting, leaves, legible_parts, receipt_of, sightings
from whichloop.protocol.wire import read_call


def call_text(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a text that is equal for equal calls, in whatever order the arguments were given."""
    try:
        return canonical_json([tool, arguments])
    except (TypeError, ValueError, RecursionError):  # what JSON cannot say was not planned either
        return f"{tool}({render_value(arguments)})"


def call_digest(tool: str, arguments: Mapping[str, object]) -> str:
    """Return CALL: six hex digits of tool and canonical arguments."""
    return sha256(call_text(tool, arguments))[:6]


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


class Form(NamedTuple):
    """A call that a planned one stands for, its references filled in."""

    call: ToolCall
    digest: str
    """CALL."""
    option: int
    """0 for the planned call itself, 1 and on for its alternatives."""


def concrete(planned: PlannedCall, values: Mapping[str, Any]) -> ToolCall | None:
    """Return a planned call with its references filled in; None where a result does not have the part that is referred to."""
    try:
        return ToolCall(planned.tool, resolve(planned.arguments, values))
    except (KeyError, IndexError, TypeError):
        return None


class Ledger:
    """All receipts of one trial."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], ReceiptEntry] = {}
        self.issued: list[ReceiptEntry] = []
        """In order."""
        self.forms: dict[str, list[Form]] = {}
        """Planned id → the calls that it has stood for so far, the latest first: where a prompt shows a result but no longer those
        that it came from, it is known by its receipt."""
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

    def forms_of(self, planned: PlannedCall, values: Mapping[str, Any]) -> Sequence[Form]:
        """Return the call that a planned one stands for, given the results so far, then its alternatives."""
        calls = [concrete(option, values) for option in (planned, *planned.alternatives)]
        now = [Form(call, call_digest(call.name, call.arguments), option) for option, call in enumerate(calls) if call is not None]
        known = self.forms.setdefault(planned.id, [])
        for form in now:
            if not any(form[1:] == other[1:] for other in known):
                known.insert(0, form)
        return now

    def parts_shown(self, entry: ReceiptEntry, seen: Sighting, paths: Sequence[Path]) -> Mapping[Path, float]:
        """Return the paths into a result whose values a sighting of it shows, with the share of its text that ends with each."""
        if (entry.call, entry.content, seen.text) in self._vouched:
            return dict.fromkeys(paths, 1.0)
        return legible_parts(entry.text.strip(), entry.value, seen, paths)


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


def paired_results(messages: Sequence[Message]) -> list[PairedResult]:
    """Return the results that messages give for the calls of replies with several; other results cannot be another call's."""
    paired: list[PairedResult] = []
    digests: dict[str, frozenset[str]] = {}
    reply = 0
    for place, message in enumerate(messages):
        if message.calls:
            digests, reply = {}, place
            for native in message.calls if len(message.calls) > 1 else ():
                try:
                    call = read_call(native)
                except WireError:  # no result can be that of a call that nobody can read
                    continue
                digests[native.id] = digests.get(native.id, frozenset()) | {call_digest(call.name, call.arguments)}
        elif digests and message.role == "tool" and message.call_id in digests and (mark := MARK.search(message.content)):
            paired.append(PairedResult(reply, place, digests[message.call_id], receipt_of(mark)))
    return paired


def believed(messages: Sequence[Message], ledger: Ledger) -> Sequence[Message]:
    """Return messages as a model takes them: a result that is given for another call counts as that call's.

    It gets a receipt that says so, of a content that its call never gave. This holds for results that a reply's calls have
    exchanged; where one is given twice, or is that of an earlier reply, this gives it away, and the model calls again.
    """
    paired = paired_results(messages)
    if not paired or all(one.is_right for one in paired):
        return messages
    unmatched = Counter((one.reply, call) for one in paired for call in one.calls)
    unmatched.subtract((one.reply, one.owner) for one in paired)
    odd = {reply for (reply, _), count in unmatched.items() if count}
    taken = list(messages)
    for one in paired:
        call, _, content = one.receipt.partition(".")
        entry = ledger.find(call, content)
        if one.is_right or len(one.calls) != 1 or one.reply in odd or entry is None:
            continue
        (meant,) = one.calls
        swapped = ledger.find(meant, content) or ledger.sign(meant, entry.text, entry.value, entry.ok)
        taken[one.place] = replace(taken[one.place], content=taken[one.place].content.replace(entry.key, swapped.key))
    return taken


# --- what a model makes of a prompt: which planned calls it shows, and how far from its end ---

Uses = Mapping[Path, frozenset[str | None]]
"""The parts of a result that are used, and by which calls; None stands for the answer."""
_NONE: Mapping[str, Any] = MappingProxyType({})
_NO_USES: Uses = MappingProxyType({})


class ShownResult(NamedTuple):
    """A planned call whose receipt the prompt shows."""

    form: Form
    entry: ReceiptEntry
    uses: Uses
    sightings: Sequence[Sighting]
    shares: Sequence[Mapping[Path, float]]
    """The parts that each of these shows, with the share of its text that ends with each; the empty path: all."""
    unread: Sequence[frozenset[str | None]]
    """Who uses each part that is used and cannot be read."""

    @property
    def parts(self) -> list[Path]:
        """The parts that can be read, and the empty path if all of it can."""
        return list(dict.fromkeys(path for shares in self.shares for path in shares))

    def distance(self, length: int) -> float:
        """Return how far from the end of a prompt of so many characters what is used of it stands, 0 to 1.

        Of each part, where it stands nearest.
        """
        places: dict[Path, float] = {}
        for one, shares in zip(self.sightings, self.shares, strict=True):
            for path, share in shares.items():
                place = one.distance(length, share)
                places[path] = min(place, places.get(path, place))
        used = [places[path] for path in self.uses if path in places]
        return max(used) if used else places.get((), self.sightings[-1].distance(length))


class PromptView(NamedTuple):
    """What the model makes of one prompt."""

    plan: Plan
    text: str
    """All that the request shows."""
    tools: Collection[str]
    """Tools offered natively; others are usable iff the text names them."""
    results: Mapping[str, ShownResult] = _NONE
    misled: bool = False
    """A result differs from what the tool would truly give: what depends on it comes out wrong."""
    stuck: bool = False
    """The model is at a loss: the prompt does not show what is asked, or a call that should work has been seen to fail for good,
    and so have all that might stand in for it."""

    forms: Mapping[str, Sequence[Form]] = _NONE
    """Planned id → the calls that it has stood for so far in this trial, the latest first."""
    bluff: Any = None
    """What the model answers that makes it all up; None: a wrong value of the planned answer's shape."""
    says: Callable[[Any], Any] | None = None
    """The form in which the model states an answer; None: as it is."""
    illegible: tuple[str, ...] = ()
    """Receipts, CALL.CONTENT, of planned calls that the prompt shows without all that is still to be used of their results."""
    overlooked: Collection[str] = ()
    """Goals that the model sees no call for."""
    current: Mapping[str, Sequence[Form]] = _NONE
    """Planned id → the calls that it and its alternatives stand for, given the results that the prompt shows."""

    @property
    def unknown(self) -> list[PlannedCall]:
        return [call for call in self.plan.calls if call.id not in self.results]

    @property
    def values(self) -> dict[str, Any]:
        return {name: item.entry.value for name, item in self.results.items()}

    def shows_tool(self, name: str) -> bool:
        """Return whether a tool is offered, or its name is a word of its own in the text ("address" does not name "add")."""
        return name in self.tools or next(named_in(name, self.text), None) is not None

    def ready(self) -> list[PlannedCall]:
        """Return unknown calls whose dependencies are known, in the plan's order."""
        needs, known = self.plan.dependencies, self.results.keys()
        return [call for call in self.plan.calls if call.id not in known and needs[call.id] <= known]


def read_prompt(plan: Plan, oracle: Mapping[str, Truth], ledger: Ledger, text: str, tools: Collection[str] = ()) -> PromptView:
    """Read which planned calls the prompt shows. `oracle`: the truth of each planned call.

    A call is known iff its receipt is legible, and of its result every part that the answer or a call that is not known refers to.
    """
    seen = sightings(text)
    shown: dict[str, ShownResult] = {}
    values: dict[str, Any] = {}
    current: dict[str, Sequence[Form]] = {}
    stuck = is_cut = False
    for planned in plan.calls if seen else ():
        name, failed, needs = planned.id, 0, plan.dependencies[planned.id]
        if needs <= shown.keys() and not (is_cut and any(name in users for need in needs for users in shown[need].unread)):
            forms = current[name] = ledger.forms_of(planned, values)
        else:
            forms = ledger.forms.get(name, ())
        for form in forms:
            if form.digest not in seen:
                continue
            sighted = seen[form.digest]
            # the latest result that came out as planned, else the latest: a repeat that is refused undoes nothing
            entry: ReceiptEntry | None = None
            for one in reversed(sighted):
                found = ledger.find(form.digest, one.content)
                if found is not None and found.ok is not planned.fails:
                    entry = found
                    break
                entry = entry or found
            if entry is None:
                continue
            if entry.ok is planned.fails:
                failed += not planned.fails
                continue
            uses = plan.uses.get(name, _NO_USES)
            if plan.answer is not None and not plan.is_referring and entry.ok:  # it rests on the values that are equal to its own
                wanted = {render_value(value) for _, value in leaves(plan.answer)}
                rests_on = [path for path, value in leaves(entry.value) if render_value(value) in wanted]
                uses = {**uses, **{path: uses.get(path, frozenset()) | {None} for path in rests_on}}
            paths = tuple(uses) if () in uses else (*uses, ())
            beside = sighted if len(sighted) == 1 else [one for one in sighted if one.content == entry.content]
            parts = [ledger.parts_shown(entry, one, paths) for one in beside]
            unread = [users for path, users in uses.items() if not any(path in shares for shares in parts)]
            is_cut = is_cut or bool(unread)
            shown[name] = ShownResult(form, entry, uses, beside, parts, unread)
            values[name] = entry.value
            break
        else:
            stuck = stuck or failed > len(planned.alternatives)
    results = shown
    if is_cut:
        done: set[str | None] = set()
        for planned in reversed(plan.calls):  # what has served calls that are known is done with
            if planned.id in shown and all(users <= done for users in shown[planned.id].unread):
                done.add(planned.id)
        results = {name: item for name, item in shown.items() if name in done}
    planned_results = ((item, oracle.get(name)) for name, item in results.items() if item.form.option == 0)
    misled = any(true is not None and true.content != item.entry.content for item, true in planned_results)
    illegible = tuple([item.entry.key for name, item in shown.items() if name not in results]) if is_cut else ()
    return PromptView(plan, text, tools, results, misled, stuck, ledger.forms, illegible=illegible, current=current)


def share_shown(prompt: str, text: str) -> float:
    """Return the share of a text's content words that a prompt shows, however quoted, escaped or laid out: 0 to 1.

    Content words have four letters or more, or a digit.
    """
    if text in prompt:
        return 1.0
    words = {word for word in re.findall(r"\w+", text.lower()) if len(word) >= 4 or not word.isalpha()}
    shown = set(re.findall(r"\w+", prompt.lower().replace("\\n", " ")))  # JSON writes the end of a line so
    return len(words & shown) / len(words) if words else 0.0


def named_in(name: str, text: str) -> Iterator[int]:
    """Yield where a text names something, not as a part of a longer name."""
    return (found.start() for found in re.finditer(rf"\b{re.escape(name)}\b", text))
