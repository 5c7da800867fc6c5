"""A product whose large refunds wait for a person: its events are printed as they come, the answer is typed, and the run survives
the end of its process, because its checkpoint is a file. `FakeModel` stands in for a provider's model.
"""

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from whichloop.loops import (
    Act,
    Answer,
    ApprovalAsked,
    ApprovalDecided,
    ApprovalRequired,
    CheckpointFile,
    Finish,
    Model,
    Query,
    ReplyChunk,
    Resumable,
    RunEnded,
    Toolbox,
    ToolCall,
    ToolFinished,
    run_events,
)
from whichloop.models.fake import FakeModel


@dataclass
class Closing:
    order: str
    cents: int


def refund(order: str, cents: int, reason: str = "goodwill") -> str:
    """Pay money back to the buyer of an order."""
    return f"{cents} cents are on their way to the buyer of {order} ({reason})"


async def work(path: Path, model: Model) -> Closing | None:
    """Begin the run or go on with it; return its answer, None while a call waits for a person."""
    checkpoint = CheckpointFile(path, needs_approval={"refund": lambda arguments: arguments["cents"] > 1_000})
    loop = Resumable(Finish(max_steps=6, finish_with_tools="ask_again"), checkpoint)
    query = Query("The kettle of order A7 came broken.", schema=Closing)
    async with contextlib.aclosing(run_events(loop, query, Toolbox([refund]), model, streams=True)) as events:
        with contextlib.suppress(ApprovalRequired):
            async for event in events:
                match event:
                    case ReplyChunk(chunk=chunk):
                        print(chunk.text, end="", flush=True)
                    case ApprovalAsked(call=call, arguments=arguments):
                        print(f"\n{call.name} {dict(arguments)} waits for a person.")
                    case ApprovalDecided(by=who, approved=approved):
                        print(f"{who} has {'approved' if approved else 'refused'} it.")
                    case ToolFinished(observation=seen):
                        print(seen.data)
                    case RunEnded(outcome=outcome) if outcome is not None and outcome.usage is not None:
                        print(f"\n{outcome.usage.requests} requests, {outcome.usage.total_tokens} tokens")
                        return outcome.answer
    return None


def main(path: Path) -> None:
    asking = Act("That is on us.", (ToolCall("refund", {"order": "A7", "cents": "4200"}),))
    assert asyncio.run(work(path, FakeModel(asking))) is None
    reviewed = CheckpointFile(path)  # in another process, say
    (waiting,) = reviewed.pending
    reviewed.approve(waiting, arguments={**waiting.arguments, "cents": 4000}, by="Ann")
    print(asyncio.run(work(path, FakeModel(Answer("It is done.", {"order": "A7", "cents": 4000})))))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "A7.jsonl")
