"""1 iff equal as text without case, punctuation, articles and white space; a number keeps its sign and its decimal point."""

from __future__ import annotations

from typing import Any

from whichloop.protocol import render_value

from ..answers import MARK_OUTSIDE_NUMBERS, answer_scorer, squad_form
from ..judgement import Scorer


def normalized() -> Scorer:
    """Return the scorer for which an answer is right that is the expected one apart from case, punctuation and articles."""
    return answer_scorer(_compare)


def _compare(expected: Any, answer: Any) -> float:
    left, right = render_value(expected), render_value(answer)
    plain_left, plain_right = squad_form(left, MARK_OUTSIDE_NUMBERS), squad_form(right, MARK_OUTSIDE_NUMBERS)
    if not plain_left or not plain_right:  # nothing but punctuation or articles: it is what was meant
        return float(left.strip().casefold() == right.strip().casefold())
    return float(plain_left == plain_right)


SCORER = normalized
