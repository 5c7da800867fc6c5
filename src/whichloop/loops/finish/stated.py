"""The answer that a reply states, by `__finish__` or in XML, and whether it is valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.protocol import WireError

from .codec import ReadCall
from .output import FINISH, InvalidOutput, Output
from .xml_output import read_output


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """The answer that a reply states, or what is wrong with it."""

    call: ReadCall | None
    """The first `__finish__`; None if the reply has none."""
    value: Any = None
    problem: str = ""
    """What is wrong with the answer; empty if it is valid, and if no call states one."""


def stated_answer(output: Output, calls: Sequence[ReadCall]) -> StatedAnswer:
    """Return the answer that the first `__finish__` among the calls states."""
    finish = next((call for call in calls if call.is_finish), None)
    if finish is None or finish.problem:
        return StatedAnswer(finish, problem=finish.problem if finish else "")
    try:
        return StatedAnswer(finish, output.validate(finish.call.arguments))
    except InvalidOutput as error:
        return StatedAnswer(finish, problem=f"{FINISH} was called with an invalid answer: {error}")


def stated_in_xml(output: Output, text: str) -> StatedAnswer:
    """Return the answer that an XML reply states."""
    try:
        _, tree = read_output(text, output.parameters)
        return StatedAnswer(None, output.validate(output.converted(tree)))
    except (WireError, InvalidOutput) as error:
        return StatedAnswer(None, problem=str(error))
