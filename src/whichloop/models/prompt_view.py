"""What a model makes of a prompt: which planned calls it shows, and how far from its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from whichloop.protocol import Plan, PlannedCall, ToolCall, render_value
from whichloop.protocol.receipts import Path, Sighting, leaves, sightings

from .receipts import Form, Ledger, ReceiptEntry, Truth, concrete

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
    """Where the prompt shows it."""
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

    def without(self, forgotten: Collection[str]) -> PromptView:
        """Return the same prompt with some results overlooked."""
        return self._replace(results={name: item for name, item in self.results.items() if name not in forgotten})

    @property
    def unknown(self) -> list[PlannedCall]:
        return [call for call in self.plan.calls if call.id not in self.results]

    @property
    def values(self) -> dict[str, Any]:
        return {name: item.entry.value for name, item in self.results.items()}

    def shows_tool(self, name: str) -> bool:
        """Return whether a tool is offered, or its name is a word of its own in the text ("address" does not name "add")."""
        return name in self.tools or next(named_in(name, self.text), None) is not None

    def call_of(self, planned: PlannedCall) -> ToolCall | None:
        """Return what a planned call that is `ready` stands for; None where a result lacks the part that it refers to."""
        forms = self.current.get(planned.id)
        return forms[0].call if forms and forms[0].option == 0 else concrete(planned, self.values)

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
            basis = tuple([shown[need].entry.key for need in needs]) if needs else ()
            forms = current[name] = ledger.forms_of(planned, values, basis)
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
    """Yield where a text names something, not as a part of a longer name; a pattern takes ten times as long."""
    whole = re.compile(rf"\b{re.escape(name)}\b")
    at = text.find(name)
    while at >= 0:
        if whole.match(text, at):
            yield at
        at = text.find(name, at + 1)
