"""Checks of the fields of a record that is read from a file, which may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_COUNT: Final = 10**15
"""Largest count, number of seconds or amount of dollars; what is computed from larger ones would overflow."""
MAX_SEED: Final = 2**63 - 1
"""Seeds lie between minus this and this."""
STATUSES = frozenset({"scored", "errored", "excluded"})


def check_fields(values: Mapping[str, object]) -> None:
    """Raise ValueError that names the first field whose value a record cannot have."""
    for name, value in values.items():
        fits, expected = _CHECKS[name]
        if not fits(value):
            raise ValueError(f"{name} is not {expected}")


def check_fault(values: Mapping[str, object]) -> None:
    """Raise ValueError unless all fields of a fault are a text or a flag."""
    for name, value in values.items():
        if type(value) is not (str if name in ("kind", "point") else bool):
            raise ValueError(f"{name} of a fault is not {'a text' if name in ('kind', 'point') else 'true or false'}")


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -MAX_COUNT <= value <= MAX_COUNT


def _is_amount(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= MAX_COUNT)


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _are_counts(value: object) -> bool:
    return type(value) is dict and all(map(_is_count, value.values()))


def _are_shares(value: object) -> bool:
    return type(value) is dict and all(map(_is_share, value.values()))


def _is_finite(value: object) -> bool:
    """Say whether no number in a JSON value is infinite, as JSON's 1e999 is read."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is dict:
        return all(map(_is_finite, value.values()))
    return type(value) is not list or all(map(_is_finite, value))


def _anything(value: object) -> bool:
    return True


_Check = tuple[Callable[[Any], bool], str]
_TEXT: _Check = (_is_text, "a text")
_FLAG: _Check = (_is_flag, "true or false")
_COUNT: _Check = (_is_count, f"a whole number from 0 to {MAX_COUNT:.0e}")
_COUNT_OR_NONE: _Check = (lambda value: value is None or _is_count(value), f"a whole number from 0 to {MAX_COUNT:.0e}, or null")
_NUMBER: _Check = (_is_number, f"a number up to {MAX_COUNT:.0e}")
_AMOUNT: _Check = (_is_amount, f"an amount from 0 to {MAX_COUNT:.0e}")
_COUNTS: _Check = (_are_counts, "an object of counts")
_CHECKED_ELSEWHERE: _Check = (_anything, "")
_CHECKS: Mapping[str, _Check] = {
    **dict.fromkeys(("arm", "suite", "suite_digest", "task", "reason", "cluster", "trace_digest", "template"), _TEXT),
    **dict.fromkeys(("tokens_estimated", "false_success", "abstained", "gave_up", "plan_unseen", "answer_unseen"), _FLAG),
    **dict.fromkeys(("repeat", "steps", "tool_calls", "input_tokens", "output_tokens", "cached_tokens"), _COUNT),
    **dict.fromkeys(("repeated_calls", "attempt", "version", "trace_at"), _COUNT),
    **dict.fromkeys(("seconds", "wall_s", "simulated_s", "started_at"), _NUMBER),
    **dict.fromkeys(("cost_usd", "nominal_usd", "user_cost_usd"), _AMOUNT),
    **dict.fromkeys(
        ("calls", "retries", "errors", "results_needed", "results_shown", "injections", "call_counts", "user_counts"), _COUNTS
    ),
    **dict.fromkeys(("later_bytes", "repeated_bytes", "cacheable_tokens"), _COUNT_OR_NONE),
    "faults": _CHECKED_ELSEWHERE,
    "seed": (lambda value: type(value) is int and -MAX_SEED <= value <= MAX_SEED, "a whole number of 64 bits"),
    "status": (lambda value: type(value) is str and value in STATUSES, "scored, errored or excluded"),
    "stop": (lambda value: value is None or type(value) is str, "a text"),
    "answer": (_is_finite, "finite"),
    "scores": (_are_shares, "an object of numbers from 0 to 1"),
    "confidence": (lambda value: value is None or _is_share(value), "a number from 0 to 1"),
    "unknown": (lambda value: type(value) is tuple and all(map(_is_text, value)), "a list of texts"),
}
