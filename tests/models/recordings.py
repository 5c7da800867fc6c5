"""Recording and replaying in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whichloop.models.fake import FakeModel
from whichloop.models.recording import Line, RecordedModel, RecordingMode, Recordings, decode
from whichloop.protocol import Message, ModelError, ProviderError, Request, run_sync

TRIAL = ("bare", "t1", 0)


def ask(text: str = "What?", **changes: Any) -> Request:
    return Request((Message("system", "Be brief."), Message("user", text)), **changes)


async def heard(model: RecordedModel, request: Request, stream: bool = False) -> Any:
    """What came: the reply, or the error as plain values."""
    try:
        if not stream:
            return await model.complete(request)
        return [chunk async for chunk in model.stream(request)][-1].reply
    except ProviderError as error:
        return error.kind, str(error), error.status, error.retry_after_s, error.injected, error.failed_attempts
    except ModelError as error:
        return type(error).__name__, str(error)


def use(
    folder: Path,
    mode: RecordingMode,
    requests: Sequence[Request] = (),
    inner: FakeModel | None = None,
    *,
    trial: tuple[str, str, int] = TRIAL,
    name: str = "m",
    whole: bool = True,
    goes_on: bool = False,
) -> list[Any]:
    """What one trial hears, in a run of its own."""
    recordings = Recordings(folder, mode, goes_on=goes_on)
    model = RecordedModel(recordings, name, trial, inner)
    came = [run_sync(heard(model, request)) for request in requests]
    recordings.close(whole)
    return came


def texts(came: Sequence[Any]) -> list[str]:
    """The texts of replies; of failures their kinds."""
    return [reply[0] if isinstance(reply, tuple) else reply.text for reply in came]


def lines_of(path: Path) -> list[Line]:
    return [decode(line, Line) for line in path.read_bytes().splitlines(keepends=True)[1:]]
