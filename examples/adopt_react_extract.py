"""React -> Extract in a product: a loop over any Model.

`FakeModel` makes the listed moves, offline; `whichloop.open_model("openai/gpt-4o-mini")` is a Model too. As a dspy.Module it is
`whichloop.loops.ReactExtractProgram`, for teleprompters to optimize.
"""

import asyncio

from whichloop.loops import Act, Answer, Query, ReactExtract, Toolbox, ToolCall
from whichloop.models.fake import FakeModel


def events(city: str, day: str) -> list[str]:
    """What is on in a city on a day, as YYYY-MM-DD."""
    return ["fireworks on the Sumida", "jazz at the Pit Inn"] if (city, day) == ("Tokyo", "2026-07-25") else []


SCHEMA = {"type": "object", "properties": {"event": {"type": "string"}, "indoors": {"type": "boolean"}}}
model = FakeModel(
    Act("See what is on.", (ToolCall("events", {"city": "Tokyo", "day": "2026-07-25"}),)),
    Answer("The trajectory holds all that the answer needs."),
    Answer("Rain is due, so indoors.", {"event": "jazz at the Pit Inn", "indoors": True}),
)


async def main() -> None:
    query = Query("What shall we do in Tokyo on 25 July 2026? Rain is due.", schema=SCHEMA)
    outcome = await ReactExtract(max_iterations=4).run(query, Toolbox([events]), model)
    for key, value in outcome.details["trajectory"].items():
        print(f"{key:>13}  {value}")
    print(f"{outcome.answer} ({outcome.stop})")  # prints {'event': 'jazz at the Pit Inn', 'indoors': True} (finished)


if __name__ == "__main__":
    asyncio.run(main())
