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
    wanted, given = items_in(expected), items_in(answer)
    if wanted is None or given is None:
        return 0.0
    return float(Counter(map(item_key, wanted)) == Counter(map(item_key, given)))


SCORER = same_items
