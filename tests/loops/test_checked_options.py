"""The options of a loop that Python code makes: each mistake is one line that names loop and option."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whichloop.loops import Bare, Finish, ReactExtract, Stateless
from whichloop.loops.repeat_guard import RepeatGuard


@pytest.mark.parametrize(
    ("design", "options", "said"),
    [
        (Finish, {"parse_retry": 1}, r"^Finish: unknown option 'parse_retry'; did you mean 'parse_retries'\?"),
        (Finish, {"parse_retries": "1"}, "^Finish: parse_retries: Input should be a valid integer, got '1'$"),
        (Finish, {"parse_retries": None}, "^Finish: parse_retries: .*, got None$"),
        (Bare, {"max_step": 3}, r"^Bare: unknown option 'max_step'; did you mean 'max_steps'\?"),
        (ReactExtract, {"extract": "yes"}, "^ReactExtract: extract: Input should be a valid boolean, got 'yes'$"),
        (
            Bare,
            {"max_consecutive_errors": "x"},
            "^Bare: max_consecutive_errors: Input should be a valid integer.*, or None, got 'x'$",
        ),
        (Bare, {"fences": "cut"}, "^Bare: fences must be one of refuse, read, not 'cut'$"),
        (Bare, {"decision_format": 7}, "^Bare: decision_format must be one of json, fields, native, not 7$"),
        (Finish, {"forced_finish": None}, "^Finish: forced_finish must be one of both, tool_choice, xml, off, not None$"),
        (Stateless, {"response_style": "long"}, "response_style must be one of concise, detailed, None, not 'long'$"),
        (RepeatGuard, {"warn": 3}, r"^RepeatGuard: unknown option 'warn'; did you mean 'warn_at'\?"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(design: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        design(**options)
    assert "\n" not in str(raised.value)


def test_right_options_are_kept_as_they_are() -> None:
    assert Finish(max_steps=None, parse_retries=3, temperature=1) == replace(Finish(), parse_retries=3, temperature=1)
    assert Bare(5).max_steps == 5
    with pytest.raises(ValueError, match=r"^max_steps must be at least 1, not 0$"):
        Bare(0)
