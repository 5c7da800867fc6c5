"""1 iff the last number in the answer lies within `tolerance` x |expected|.

It reads thousands separators, signs, scientific notation and fractions (3/4), with currency, % and units around them: 50% is 50. It
does not read a decimal comma or a mixed number (1 3/4). Booleans, NaN and infinities are not numbers.
"""

from __future__ import annotations

from typing import Any

from ..answers import DEFAULT_TOLERANCE, answer_scorer, check_tolerance, close, number_in
from ..judgement import Scorer


def numeric(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """Return the scorer of answers that are numbers. Raises ValueError for a negative or infinite tolerance."""
    check_tolerance(tolerance)

    def compare(expected: Any, answer: Any) -> float:
        expected_number, answer_number = number_in(expected), number_in(answer)
        return float(expected_number is not None and answer_number is not None and close(expected_number, answer_number, tolerance))

    return answer_scorer(compare)


SCORER = numeric
