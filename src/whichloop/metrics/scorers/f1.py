"""Token F1 of SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250; its `evaluate-v2.0.py`), in [0, 1]."""

from __future__ import annotations

from collections import Counter
from typing import Any

from whichloop.protocol import render_value

from ..answers import MARK, answer_scorer, squad_form
from ..judgement import Scorer


def f1() -> Scorer:
    """Return the scorer of the words that answer and expected text share: F1 of precision and recall."""
    return answer_scorer(_compare)


def _compare(expected: Any, answer: Any) -> float:
    expected_words = Counter(squad_form(render_value(expected), MARK).split())
    answer_words = Counter(squad_form(render_value(answer), MARK).split())
    if not expected_words or not answer_words:
        return float(expected_words == answer_words)
    return 2 * (expected_words & answer_words).total() / (expected_words.total() + answer_words.total())


SCORER = f1
