"""The law on queries with a type: the answer is an instance of it, or there is none."""

from __future__ import annotations

from whichloop.datasets.task import Task
from whichloop.protocol import ForeignLoop, Loop, Plan, Query, StopReason

from .law import NotApplicable, require
from .scene import play, scripted

QUESTION = Query("A spider has how many legs? You know that without any help.", schema=int)
ANSWERS = (8, "hello", "", "8 or so", [8], {"legs": 8}, 8.5)
"""What the model answers: a number, then what is none."""
CURE = "decorate `run` with whichloop.loops.bounded, which sees to it"


async def typed_answers(loop: Loop) -> None:
    """The answer to a query with a type is an instance of that type; what the type refuses is no answer.

    A product works on with the answer as what its type says. A foreign loop's program gets the schema alone.
    """
    if isinstance(loop, ForeignLoop):
        raise NotApplicable("its program gets a schema, and no type")
    for value in ANSWERS:
        task = Task(f"typed answer {value!r}", QUESTION, value, plan=Plan((), value))
        outcome = (await play(loop, await scripted(task))).outcome
        case = f"a model answers {value!r} to a query with schema=int, and the run stops as {outcome.stop}"
        is_number = type(outcome.answer) is int
        require(is_number or outcome.answer is None, f"{case}: the answer is {outcome.answer!r}; it must be an int or None: {CURE}")
        is_done = outcome.stop in (StopReason.FINISHED, StopReason.FORCED)
        require(is_number or not is_done, f"{case}, without an answer: it must stop as parse_failed: {CURE}")
        require(outcome.stop in loop.stops | {StopReason.PARSE_FAILED}, f"{case}, which `stops` does not declare")
