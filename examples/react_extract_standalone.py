"""React -> Extract by itself, two ways: as a loop over any Model, and as a dspy.Module.

Runs offline: `Guide` is a Model of a few lines. With a real one, `DspyModel(dspy.LM("provider/model"))` is the Model of the first
way, and `dspy.configure(lm=dspy.LM("provider/model"))` is all that the second needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import dspy

from loopbench.dspy_seam import lm_of
from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
from loopbench.protocol import Act, Answer, Capabilities, Chunk, Query, Reply, Request, Role, Toolbox, ToolCall

EVENTS = {"Tokyo": ["jazz at the Pit Inn", "fireworks on the Sumida"]}


def events(city: str) -> list[str]:
    """What is on in a city tonight."""
    return EVENTS[city]


class Guide:
    """Looks once, then answers from what it sees. `request.codec` puts a move into the format that the loop asked for."""

    name = "guide"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Reply:
        assert request.codec is not None
        prompt = request.messages[-1].content
        if request.role is Role.ANSWER:
            found = [event for event in EVENTS["Tokyo"] if event in prompt]
            return request.codec.render(Answer("The tool named what is on.", "; ".join(found)))
        if "observation_0" in prompt:
            return request.codec.render(Answer("That is all I need."))
        return request.codec.render(Act("I should look it up.", (ToolCall("events", {"city": "Tokyo"}),)))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def main() -> None:
    question = "What is on in Tokyo tonight?"

    outcome = ReactExtract(max_iterations=3).run_sync(Query(question), Toolbox([events]), Guide())
    print(f"as a loop:    {outcome.answer} ({outcome.stop}, {outcome.steps} steps)")

    dspy.configure(lm=lm_of(Guide()))
    agent = ReactExtractProgram([events], ReactExtract(max_iterations=3))
    prediction = agent(query=question)
    print(f"as a program: {prediction.answer} ({prediction.stop})")
    for key, value in prediction.trajectory.items():
        print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
