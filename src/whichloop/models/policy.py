"""The policy: what a model that reads its prompt would decide next, from a plan and from what the prompt shows. Pure functions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from whichloop.protocol.moves import Act, Completion, Move, PlanTask, Recovery, Role, Tasks, Text, Understanding
from whichloop.protocol.plan import PlannedCall, Ref, resolve
from whichloop.protocol.tool_calls import ToolCall
from whichloop.protocol.values import render_value

from .faults import ANSWER, NOT_DETERMINED, SURE, UNSURE, answer_options, mislead
from .receipts import PromptView, ShownResult, concrete, named_in

_NEEDS_A_TOOL = "I would need a tool for this: {}"
MADE_UP = 4711
"""What a model that bluffs says in the place of a result; no small number, which might be right by chance."""


class PolicyRequest(NamedTuple):
    """What the policy is asked for, beside the view."""

    max_calls: int
    failures: Mapping[str, int]
    """Planned call → failed attempts that the model saw."""
    patience: int
    bluffs: bool
    """The honest answer would be "not determined", and this trial's model bluffs instead."""
    stated_answer: str = ""
    invented: Collection[str] = ()
    """Planned calls in whose place the model last called a tool that does not exist."""


class PolicyDecision(NamedTuple):
    """A move, where it stands in the plan, and what to say instead where a codec cannot say it."""

    point: str
    """Id of the move's first planned call, or `answer`."""
    options: tuple[Move, ...]
    """Moves in order of preference."""
    calls: tuple[str, ...] = ()


def decide(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Return the calls that can be made now, at most `max_calls`; the answer once all results are known."""
    ready = view.ready()[: ask.max_calls]
    if not ready or view.stuck:
        return answer(view, ask)
    made: list[ToolCall] = []
    for planned in ready:
        call = _chosen(planned, view, ask)
        if call is None:
            return answer(view, ask)
        if not view.shows_tool(call.name):
            return PolicyDecision(ANSWER, (Text(_NEEDS_A_TOOL.format(planned.goal)), *answer(view, ask).options))
        made.append(call)
    moves = (Act(f"Next: {ready[0].goal.rstrip('.')}.", tuple(made)), Act("", tuple(made)))
    return PolicyDecision(ready[0].id, moves, tuple(planned.id for planned in ready))


def _chosen(planned: PlannedCall, view: PromptView, ask: PolicyRequest) -> ToolCall | None:
    """Return the planned call itself, or an alternative once patience with it is used up."""
    tried = ask.failures.get(planned.id, 0) - ask.patience + 1
    if tried <= 0 or not planned.alternatives:
        forms = view.current.get(planned.id)
        return forms[0].call if forms and forms[0].option == 0 else concrete(planned, view.values)
    return concrete(planned.alternatives[min(tried, len(planned.alternatives)) - 1], view.values)


def answer(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Return the answer iff all results are legible; else "not determined", or a bluff."""
    if view.unknown or view.stuck:
        confidence = SURE if ask.bluffs else UNSURE
        return PolicyDecision(ANSWER, answer_options("Some results are missing.", guess(view, ask.bluffs), confidence))
    value = _derived(view)
    return PolicyDecision(ANSWER, answer_options("All results are in.", value if view.says is None else view.says(value), SURE))


def guess(view: PromptView, bluffs: bool) -> object:
    """Return what a model says that does not have all results: "not determined", or a fluent wrong value."""
    if not bluffs:
        return NOT_DETERMINED
    return _made_up(view.plan.answer) if view.bluff is None else view.bluff


def _derived(view: PromptView) -> object:
    """Return the plan's answer, if it has one; an answer that refers to no result is wrong all the same when a tool lied."""
    if view.plan.answer is None:
        return NOT_DETERMINED
    try:
        value = resolve(view.plan.answer, view.values)
    except (KeyError, IndexError, TypeError):
        return NOT_DETERMINED
    return mislead(value) if view.misled and not view.plan.is_referring else value


def _made_up(answer: object) -> object:
    """Return a wrong value of the answer's shape, from a model that does not know the results."""
    if isinstance(answer, Ref):
        return MADE_UP
    if isinstance(answer, Mapping) and answer:
        return {key: _made_up(item) for key, item in answer.items()}
    if isinstance(answer, list | tuple) and answer:
        return [_made_up(item) for item in answer]
    return mislead(answer)


def understand(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """State that tools are needed to find the answer, with their names where the format has room for them."""
    tools = tuple(dict.fromkeys(call.tool for call in view.plan.calls))
    return PolicyDecision(ANSWER, (Understanding("find the answer with tools", tools), Understanding("find the answer")))


def plan(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Return one task per unknown call, with the call's goal as its description."""
    unknown = {call.id for call in view.unknown}
    tasks = tuple(
        PlanTask(call.id, call.goal, "use_tools", tuple(sorted(view.plan.dependencies[call.id] & unknown))) for call in view.unknown
    )
    return PolicyDecision(tasks[0].id if tasks else ANSWER, (Tasks(tasks, "Collect what is missing."), Tasks(tasks)))


def select(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Return the calls whose goal stands in the request and that can be made; where no goal stands there, all that can be made: the
    whole task is asked for."""
    named = {call.id for call in view.plan.calls if call.goal in view.text}
    is_all = not named and not any(goal in view.text for goal in view.overlooked)
    wanted = [call for call in view.ready() if is_all or call.id in named][: ask.max_calls]
    chosen = [(planned.id, call) for planned in wanted if (call := _chosen(planned, view, ask)) is not None]
    if not all(view.shows_tool(call.name) for _, call in chosen):
        return PolicyDecision(ANSWER, (Text(_NEEDS_A_TOOL.format(wanted[0].goal)), Act("", ())))
    point = chosen[0][0] if chosen else ANSWER
    return PolicyDecision(point, (Act("", tuple(call for _, call in chosen)),), tuple(name for name, _ in chosen))


def recount(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Return what is legible of the results, between the marks of their receipts (roles reason and summarize)."""
    goals = {call.id: call.goal for call in view.plan.calls}
    lines = [f"{goals[name]}: {item.entry.around(_retold(item))}" for name, item in view.results.items()]
    return PolicyDecision(ANSWER, (Text("\n".join(lines) or "Nothing is known yet."),))


def _retold(item: ShownResult) -> str:
    """Return a result as far as it was read; "done" where nothing is used of what was cut."""
    if () in item.parts:
        return item.entry.text
    parts = [
        {next((step for step in reversed(path) if isinstance(step, str)), "result"): Ref("", path).of(item.entry.value)}
        for path in item.parts
    ]
    return render_value(parts[0] if len(parts) == 1 else parts) if parts else "done"


def judge(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Judge the work as done iff all results are legible (roles reflect and validate)."""
    missing = tuple(call.goal for call in view.unknown)
    done, reason = not missing, "Some results are missing." if missing else "All results are in."
    return PolicyDecision(ANSWER, (Completion(done, reason, missing), Completion(done, reason), Completion(done)))


def recover(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Retry, then the plan's alternative, after `patience` failures that the model saw; then skip, as with an expected error."""
    failed = _failed_call(view, ask)
    if failed is None or failed.fails or view.stuck:
        return PolicyDecision(ANSWER, (Recovery("skip", None, "Nothing is to be done about it."), Recovery("skip")))
    option = max(0, ask.failures.get(failed.id, 0) - ask.patience + 1)
    if option > len(failed.alternatives):
        return PolicyDecision(failed.id, (Recovery("skip", None, "It keeps failing."), Recovery("skip")))
    made = [form.call for form in view.forms.get(failed.id, ()) if form.option == option]
    call = made[0] if made else concrete((failed, *failed.alternatives)[option], view.values)
    if option:
        moves = (Recovery("alternative_tool", call, "Another way."), Recovery("skip"))
    elif failed.id in ask.invented:  # the call was made to a tool that does not exist: another attempt cannot help
        moves = (Recovery("alternative_tool", call, "This is the tool that was meant."), Recovery("retry"))
    else:
        moves = (Recovery("retry", call, "It may work now."), Recovery("retry"))
    return PolicyDecision(failed.id, moves, (failed.id,))


def _failed_call(view: PromptView, ask: PolicyRequest) -> PlannedCall | None:
    """Return the planned call whose failure a request tells of: whose arguments it shows, whose tool it names most often.

    Results that the call came from need not be shown: the request names the failed call itself.
    """
    text, unspaced = view.text.replace("\\", ""), _unspaced(view.text)

    def likeness(planned: PlannedCall) -> tuple[float, int, int, int]:
        calls: list[ToolCall | None] = [form.call for form in view.forms.get(planned.id, ())]
        shares = [(0.0, 0)]  # share and number of a call's arguments that are shown: of two shown whole the one with more failed
        for call in calls or [concrete(planned, view.values)]:
            if call is not None and call.arguments:
                shown = sum(any(text in unspaced for text in _as_json(*argument)) for argument in call.arguments.items())
                shares.append((shown / len(call.arguments), shown))
        return (*max(shares), len([*named_in(planned.tool, text)]), ask.failures.get(planned.id, 0))

    ready = {call.id for call in view.ready()}
    candidates = [call for call in view.plan.calls if call.id in view.forms or call.id in ready]
    open_ = [call for call in candidates if call.id not in view.results or call.fails]
    return max(reversed(open_), key=likeness, default=None)  # of equals the last: what was met later


def _as_json(name: str, value: Any) -> set[str]:
    """Return an argument as writers of JSON have it, unspaced: in ASCII or not, keys sorted or as they came, 3 also as 3.0.

    Each up to what ends it, so that 7 is not found in 75.
    """
    said = {
        json.dumps({name: value}, ensure_ascii=in_ascii, sort_keys=sorts)[1:-1]
        for in_ascii, sorts in itertools.product((True, False), repeat=2)
    }
    ends = (",", "}", ".0,", ".0}") if isinstance(value, int) and not isinstance(value, bool) else (",", "}")
    return {_unspaced(text) + end for text in said for end in ends}


def _unspaced(text: str) -> str:
    """Return a text without white space, written out or escaped, and without backslashes, which JSON within JSON doubles."""
    return "".join(re.sub(r"\\+[nrt]", "", text).replace("\\", "").split())


def confirm(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Confirm the call that the request shows: a model takes its own calls for right. See `gullible` for calls that are not."""
    return PolicyDecision(ANSWER, (Completion(True, "The task asks for it."), Completion(True)))


def format_draft(view: PromptView, ask: PolicyRequest) -> PolicyDecision:
    """Repeat the draft that the request shows: what the model stated last, else the answer if it stands there."""
    derived = render_value(_derived(view)) if view.plan.answer is not None and not view.unknown else ""
    drafts = (draft for draft in (ask.stated_answer, derived) if draft and draft in view.text)
    return PolicyDecision(ANSWER, (Text(next(drafts, NOT_DETERMINED)),))


POLICY: Mapping[Role, Callable[[PromptView, PolicyRequest], PolicyDecision]] = {
    Role.DECIDE: decide,
    Role.UNDERSTAND: understand,
    Role.PLAN: plan,
    Role.SELECT: select,
    Role.REASON: recount,
    Role.REFLECT: judge,
    Role.RECOVER: recover,
    Role.SUMMARIZE: recount,
    Role.VALIDATE: judge,
    Role.FORMAT: format_draft,
    Role.ANSWER: answer,
    Role.CONFIRM: confirm,
}
