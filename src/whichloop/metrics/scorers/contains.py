"""1 iff each of the expected texts stands in the answer, whatever the case; commas do not count. None expected: any answer."""

from __future__ import annotations

from typing import Any

from whichloop.protocol import render_value

from ..answers import answer_scorer
from ..judgement import Scorer


def contains() -> Scorer:
    """Return the scorer for which an answer is right that contains the expected text, or each of several."""
    return answer_scorer(_compare)


def _compare(expected: Any, answer: Any) -> float:
    text = _loose(answer)
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    return float(bool(text.strip()) and all(_loose(item) in text for item in wanted))


def _loose(value: Any) -> str:
    return render_value(value).replace(",", "").casefold()


SCORER = contains
