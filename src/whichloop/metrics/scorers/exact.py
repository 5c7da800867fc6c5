"""1 iff equal as JSON values, white space around text aside; text beside a value of another type is read as JSON."""

from __future__ import annotations

from typing import Any

from whichloop.protocol import render_value

from ..answers import answer_scorer, equal, from_json
from ..judgement import Scorer


def exact() -> Scorer:
    """Return the scorer for which an answer is right that is the expected value itself."""
    return answer_scorer(_compare)


def _compare(expected: Any, answer: Any) -> float:
    if isinstance(expected, str):
        return float(expected.strip() == render_value(answer).strip())
    value = from_json(answer) if isinstance(answer, str) else answer
    return float(equal(expected, value))


SCORER = exact
