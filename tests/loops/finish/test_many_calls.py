"""A reply with very many calls costs no more than its length: the first ones run, and the model is told of the others."""

from __future__ import annotations

import asyncio

from whichloop.loops import Finish
from whichloop.loops.finish.answer import MAX_CALLS
from whichloop.protocol import FunctionModel, NativeCall, Query, Reply, Request, Tool, Toolbox


def test_calls_beyond_the_limit_are_told_and_not_run():
    ran: list[int] = []
    seen: list[Request] = []

    def note(number: int) -> int:
        """Note a number."""
        ran.append(number)
        return number

    def answer(request: Request) -> Reply:
        seen.append(request)
        if len(seen) == 1:
            return Reply("", tuple(NativeCall(f"c{place}", "note", f'{{"number": {place}}}') for place in range(3 * MAX_CALLS)))
        return Reply("", (NativeCall("last", "__finish__", '{"answer": "done"}'),))

    toolbox = Toolbox([Tool.from_function(note)])
    asyncio.run(Finish(max_steps=3).run(Query("q"), toolbox, FunctionModel(answer)))
    assert sorted(ran) == [*range(MAX_CALLS)]
    results = [str(message.content) for message in seen[1].messages if message.role == "tool"]
    assert len(results) == 3 * MAX_CALLS
    assert sum(f"at most {MAX_CALLS} calls of one reply are run" in text for text in results) == 2 * MAX_CALLS
