"""1 iff the calls in the end state are those expected (`checker`: official or strict) and an answer was given, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.datasets.bfcl.files import ANY_CALL, language_of
from whichloop.datasets.bfcl.literals import Language, read_literal
from whichloop.datasets.bfcl.official import officially_right
from whichloop.datasets.bfcl.strict import listed_calls, same_calls
from whichloop.protocol import render_value

from ..abstention import is_abstention
from ..judgement import Judgement, Scorer

READS_STATE = True


def bfcl(checker: str = "strict") -> Scorer:
    """Return the scorer. `checker`: `strict`, or `official`, for tasks of the suite `bfcl`, whose functions it has to know."""
    if checker not in ("official", "strict"):
        raise ValueError(f"scorer 'bfcl': checker is {checker!r}, and must be one of official, strict")

    def score(judgement: Judgement) -> float:
        if judgement.task.expected is None:
            return float(is_abstention(judgement.answer))
        has_answer = judgement.answer is not None and render_value(judgement.answer).strip() != ""
        return float(has_answer and _calls_are_right(judgement, checker == "official"))

    return score


def _calls_are_right(judgement: Judgement, official: bool) -> bool:
    expected, state = judgement.task.expected, judgement.state
    calls, refused = (listed_calls(state, key) for key in ("calls", "refused"))
    if expected == ANY_CALL:
        return bool(calls or refused)
    if expected == []:
        return not calls and not refused
    functions: Any = judgement.task.world.get("functions", ()) if isinstance(judgement.task.world, Mapping) else ()
    language = language_of(judgement.task.labels.get("category", ""))
    if official:
        return officially_right(expected, calls, functions, language)
    if language != "python":
        calls = [_read(call, functions, language) for call in calls]
    return same_calls(expected, {"calls": calls, "refused": refused})


def _read(call: Mapping[str, Any], functions: Any, language: Language) -> dict[str, Any]:
    """Return a call with the values of its literals."""
    parameters: Mapping[str, Any] = next(
        (function["parameters"].get("properties") or {} for function in functions if function["name"] == call["function"]), {}
    )
    values = {
        name: read_literal(value, parameters[name].get("type", "any"), (parameters[name].get("items") or {}).get("type"), language)
        if isinstance(value, str) and name in parameters
        else value
        for name, value in call["arguments"].items()
    }
    return {**call, "arguments": values}


SCORER = bfcl
