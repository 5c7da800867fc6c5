"""What the tests of React -> Extract share: tools, and a way to run the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.loops.helpers import add
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import SILENT, Observer, Outcome, Query, Tool, Toolbox, run_sync


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    return a / b


def events(city: str) -> list[dict[str, str]]:
    """What is on in a city."""
    return [{"name": "Jazz", "city": city}]


TOOLS = (add, divide, events)


BAD = "I think the answer is 3."


def run(loop: ReactExtract, model: Any, *functions: Tool | Callable[..., Any], observer: Observer = SILENT) -> Outcome:
    return run_sync(loop.run(Query("Q"), Toolbox(functions or TOOLS), model, observer))


def trajectory(outcome: Outcome) -> dict[str, Any]:
    return dict(outcome.details["trajectory"])


def shown(request: Any) -> str:
    """The trajectory as a request shows it."""
    content: str = request.messages[-1].content
    return content.partition("[[ ## trajectory ## ]]\n")[2].partition("\n\nRespond with the corresponding output fields")[0]


def system(request: Any) -> str:
    content: str = request.messages[0].content
    return content
