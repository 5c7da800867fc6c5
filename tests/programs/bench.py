"""What the tests of programs share: two tools, and a run of a loop with a model that answers 42."""

import asyncio

from whichloop.models.fake import FakeModel
from whichloop.protocol import Answer, Query, Tool, Toolbox


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def fail() -> int:
    """Fails."""
    raise ValueError("the pump is dry")


TOOLS = Toolbox((Tool.from_function(double), Tool.from_function(fail)))


def answering(*items):
    return FakeModel(*items, then=Answer("", "42"))


def run(loop, model=None, question="What is it?"):
    return asyncio.run(loop.run(Query(question), TOOLS, model or answering()))


def seen(request):
    """The results of tools that a request shows."""
    return [message.content for message in request.messages if message.role == "tool"]
