"""1 iff the answer is valid under the query's JSON schema (draft 2020-12) and equals the expected value.

Floats may differ by `tolerance` x |expected|. Text that the schema does not take is read as JSON first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import referencing

from whichloop.protocol.digest import canonical_json

from ..answers import DEFAULT_TOLERANCE, answer_scorer, check_tolerance, equal, from_json
from ..judgement import Judgement, Scorer


def schema(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """Return the scorer of JSON answers: one is right if it keeps the query's schema and equals the expected value.

    Raises ValueError for a negative or infinite tolerance; the scorer raises `jsonschema`'s errors for a broken schema.
    """
    check_tolerance(tolerance)

    def score(judgement: Judgement) -> float:
        rules = judgement.task.query.schema

        def compare(expected: Any, answer: Any) -> float:
            readings = [answer, from_json(answer)] if isinstance(answer, str) else [answer]
            return float(any(_is_valid(reading, rules) and equal(expected, reading, tolerance) for reading in readings))

        return answer_scorer(compare)(judgement)

    return score


def _is_valid(value: Any, rules: Mapping[str, Any] | None) -> bool:
    """Return whether the value is JSON and keeps the schema. References outside of the schema are refused, never fetched."""
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return False
    if rules is None:
        return True
    try:
        return bool(jsonschema.Draft202012Validator(rules, registry=referencing.Registry()).is_valid(value))
    except (RecursionError, OverflowError):  # nested too deep for a recursive schema; too long an integer for `multipleOf`
        return False


SCORER = schema
