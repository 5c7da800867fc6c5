"""1 iff the same items in any order, each as often: lists, or text separated by commas or lines. Named "set"."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..answers import answer_scorer, item_key, items_in
from ..judgement import Scorer


def same_items() -> Scorer:
    """Return the scorer for which an answer is right that has the expected items, in any order."""
    return answer_scorer(_compare)


def _compare(expected: Any, answer: Any) -> float:
    expected_items, answer_items = items_in(expected), items_in(answer)
    if expected_items is None or answer_items is None:
        return 0.0
    return float(Counter(map(item_key, expected_items)) == Counter(map(item_key, answer_items)))


SCORER = same_items
