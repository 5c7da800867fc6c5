"""What a model makes of a prompt: which planned calls it shows, and how far from its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from whichloop.protocol import Plan, PlannedCall, ToolCall, render_value, resolve
from whichloop.protocol.receipts import Path, ReceiptReader, Sighting, sightings

from .receipts import Form, Ledger, ReceiptEntry, Truth, call_digest

Uses = Mapping[Path, frozenset[str | None]]
"""The parts of a result that are used, and by which calls; None stands for the answer."""


class ShownResult(NamedTuple):
    """A planned call whose receipt the prompt shows; its result is known if `is_enough`."""

    form: Form
    entry: ReceiptEntry
    uses: Uses
    sightings: Sequence[Sighting]
    """Where the prompt shows it."""
    shares: Sequence[Mapping[Path, float]]
    """The parts that each of these shows, with the share of its text that ends with each; the empty path: all."""
    parts: tuple[Path, ...]
    """The parts that can be read, and the empty path if all of it can."""
    is_whole: bool
    """All that is used can be read."""

    @property
    def call(self) -> ToolCall:
        return self.form.call

    @property
    def value(self) -> Any:
        return self.entry.value

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

    def is_shown_to(self, user: str) -> bool:
        """Whether a call can be made from what the prompt shows of the result."""
        return self.is_whole or all(path in self.parts for path, users in self.uses.items() if user in users)

    def is_enough(self, calls_done: set[str | None]) -> bool:
        """Whether all can be read that is used by others than the calls that are done."""
        return self.is_whole or all(path in self.parts or users <= calls_done for path, users in self.uses.items())

    def is_misled(self, truth: Truth | None) -> bool:
        """Whether the result differs from what the tool would truly give."""
        return self.form.option == 0 and truth is not None and truth.content != self.entry.content


_NONE: Mapping[str, Any] = MappingProxyType({})
_NO_FORMS: Mapping[int, Sequence[Form]] = MappingProxyType({})
_NO_USES: Uses = MappingProxyType({})


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
    current: Mapping[int, Sequence[Form]] = _NO_FORMS
    """Identity of a planned call → the calls that it and its alternatives stand for, given the results that the prompt shows."""

    def without(self, forgotten: Collection[str]) -> PromptView:
        """Return the same prompt with some results overlooked."""
        return self._replace(results={name: item for name, item in self.results.items() if name not in forgotten})

    @property
    def unknown(self) -> list[PlannedCall]:
        results = self.results
        return [call for call in self.plan.calls if call.id not in results]

    @property
    def values(self) -> dict[str, Any]:
        return {name: item.entry.value for name, item in self.results.items()}

    def shows_tool(self, name: str) -> bool:
        """Return whether a tool is offered, or its name is a word of its own in the text ("address" does not name "add")."""
        return name in self.tools or _has_word(self.text, name)

    def call_of(self, planned: PlannedCall) -> ToolCall | None:
        """Return what a planned call that is `ready` stands for; None where a result lacks the part that it refers to."""
        forms = self.current.get(id(planned))
        return forms[0].call if forms and forms[0].option == 0 else concrete(planned, self.values)

    def ready(self) -> list[PlannedCall]:
        """Return unknown calls whose dependencies are known, in the plan's order."""
        needs, known_ids = self.plan.dependencies, self.results.keys()
        return [call for call in self.plan.calls if call.id not in known_ids and needs[call.id] <= known_ids]


def read_prompt(
    plan: Plan,
    oracle: Mapping[str, Truth],
    ledger: Ledger,
    text: str,
    tools: Collection[str] = (),
    reader: ReceiptReader | None = None,
) -> PromptView:
    """Read which planned calls the prompt shows. `oracle`: the truth of each planned call. `reader`: the conversation's.

    A call is known iff its receipt is legible, and of its result every part that the answer or a call that is not known refers to.
    """
    sightings_by_digest = sightings(text) if reader is None else reader.read(text)
    if not sightings_by_digest:
        return PromptView(plan, text, tools, forms=ledger.forms)
    shown_results: dict[str, ShownResult] = {}
    current: dict[int, Sequence[Form]] = {}
    stuck = False
    values: dict[str, Any] = {}
    refers = plan.answer is None or plan.is_referring
    results_before: tuple[object, ...] = ()
    for planned in plan.calls:
        name, failed = planned.id, 0
        if _may_be_made(planned, shown_results, plan):
            forms: Sequence[Form] = _forms(planned, values, results_before, ledger)
            current[id(planned)] = forms
        else:
            forms = ledger.forms.get(name, ())
        for form in forms:
            sighted = sightings_by_digest.get(form.digest)
            entry = None if sighted is None else _latest(sighted, form, ledger, ok=not planned.fails)
            if sighted is None or entry is None:
                continue
            if entry.ok is planned.fails:
                failed += not planned.fails
                continue
            uses = plan.uses.get(name, _NO_USES) if refers else _uses_by_value(plan, name, entry, ledger)
            shown_results[name] = _shown_result(form, entry, sighted, uses, ledger)
            values[name] = entry.value
            results_before += (name, id(entry.value))
            break
        else:
            stuck = stuck or failed > len(planned.alternatives)
    results = _usable_results(plan, shown_results)
    misled = any(item.is_misled(oracle.get(name)) for name, item in results.items())
    illegible = (
        tuple([item.entry.key for name, item in shown_results.items() if name not in results])
        if len(results) < len(shown_results)
        else ()
    )
    return PromptView(plan, text, tools, results, misled, stuck, ledger.forms, illegible=illegible, current=current)


def _may_be_made(planned: PlannedCall, shown_results: Mapping[str, ShownResult], plan: Plan) -> bool:
    """Whether the prompt shows all that a call is made from."""
    for name in plan.dependencies[planned.id]:
        item = shown_results.get(name)
        if item is None or not (item.is_whole or item.is_shown_to(planned.id)):
            return False
    return True


def _shown_result(form: Form, entry: ReceiptEntry, sightings: Sequence[Sighting], uses: Uses, ledger: Ledger) -> ShownResult:
    """Return what the prompt shows of a result, worked out again only where anything about it has changed since the last prompt."""
    before = ledger.last_shown.get(form.digest)
    if before is not None and before[0] is form and before[1] is entry and before[2] is sightings and before[3] is uses:
        result: ShownResult = before[4]
        return result
    paths = tuple(uses) if () in uses else (*uses, ())
    of_entry = [one for one in sightings if one.content == entry.content]
    shares = [ledger.parts_shown(entry, one, paths) for one in of_entry]
    parts = tuple(shares[0] if len(shares) == 1 else {path: None for share in shares for path in share})
    result = ShownResult(form, entry, uses, of_entry, shares, parts, is_whole=uses.keys() <= set(parts))
    ledger.last_shown[form.digest] = (form, entry, sightings, uses, result)
    return result


def _usable_results(plan: Plan, shown_results: Mapping[str, ShownResult]) -> dict[str, ShownResult]:
    """Return the calls of which all can be read that is still to be used: what has served calls that are known is done with."""
    used_up: set[str | None] = set()
    for planned in reversed(plan.calls):
        item = shown_results.get(planned.id)
        if item is not None and (item.is_whole or item.is_enough(used_up)):
            used_up.add(planned.id)
    return (
        dict(shown_results)
        if len(used_up) == len(shown_results)
        else {name: item for name, item in shown_results.items() if name in used_up}
    )


def _uses_by_value(plan: Plan, call: str, entry: ReceiptEntry, ledger: Ledger) -> Uses:
    """Return the parts of a result that are used where the plan states the answer without a reference.

    Such an answer rests on the results' values that are equal to one of its own.
    """
    key = (id(plan), call, entry.content)
    if key not in ledger.rests_on:
        wanted = {render_value(value) for _, value in _leaves(plan.answer, ())}
        uses = dict(plan.uses.get(call, {}))
        for path, value in _leaves(entry.value, ()) if entry.ok else ():
            if render_value(value) in wanted:
                uses[path] = uses.get(path, frozenset()) | {None}
        ledger.rests_on[key] = uses
    return ledger.rests_on[key]


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the values of no parts within a value, each with its path."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _leaves(item, (*path, place))
    else:
        yield path, value


def _latest(sightings: Sequence[Sighting], form: Form, ledger: Ledger, ok: bool) -> ReceiptEntry | None:
    """Return the latest result of a call that the prompt shows; one that came out as planned before any other.

    A repeat that is refused, such as booking a second time, does not undo what the model has seen to succeed.
    """
    latest: ReceiptEntry | None = None
    for one in reversed(sightings):
        entry = ledger.find(form.digest, one.content)
        if entry is not None and entry.ok is ok:
            return entry
        latest = latest or entry
    return latest


def _forms(planned: PlannedCall, values: Mapping[str, Any], results_before: tuple[object, ...], ledger: Ledger) -> list[Form]:
    """Return the call that a planned one stands for, given the results so far, then its alternatives.

    `results_before`: names and identities of the results, in order. Each form is noted down: where a prompt
    shows a result but no longer those that it came from, it is known by its receipt.
    """
    place = (id(planned), *results_before)
    forms = ledger.listed.get(place)
    if forms is not None:
        return forms
    forms = ledger.listed[place] = []
    for number, option in enumerate((planned, *planned.alternatives)):
        key = (id(option), *results_before)
        if key not in ledger.filled:
            call = concrete(option, values)
            form = None if call is None else Form(call, call_digest(call.name, call.arguments), number)
            ledger.filled[key] = form
            if form is not None:
                ledger.forms.setdefault(planned.id, []).insert(0, form)
        if (filled := ledger.filled[key]) is not None:
            forms.append(filled)
    return forms


def shows_text(prompt: str, text: str) -> bool:
    """Whether a prompt shows a text: as it is, or at least nine in ten of its words, however quoted, escaped or laid out."""
    if text in prompt:
        return True
    words = set(_WORD.findall(text))
    prompt_words = set(_WORD.findall(prompt.replace("\\n", " ")))  # JSON writes the end of a line so
    return 10 * len(words & prompt_words) >= 9 * len(words)


_WORD = re.compile(r"\w+")


def _has_word(text: str, word: str) -> bool:
    """Whether a word stands in a text by itself. A search by `str.find`: regular expressions take ten times as long here."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (_is_word_char(text[start - 1 : start]) or _is_word_char(text[end : end + 1])):
            return True
        start = text.find(word, start + 1)
    return False


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def concrete(planned: PlannedCall, values: Mapping[str, Any]) -> ToolCall | None:
    """Return a planned call with its references filled in; None where a result does not have the part that is referred to."""
    try:
        return ToolCall(planned.tool, resolve(planned.arguments, values))
    except (KeyError, IndexError, TypeError):
        return None
