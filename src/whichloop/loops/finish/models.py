"""From a model's name to a Model, and asking again after a failure that may pass."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_fixed

from whichloop.protocol import Chunk, Model, ProviderError, Reply, Request, WrappedModel
from whichloop.protocol.redact import logger_of

logger = logger_of(__name__)


class Retrying(WrappedModel):
    """A model that is asked up to `num_retries` + 1 times."""

    def __init__(self, model: Model, num_retries: int, retry_delay: float) -> None:
        """`retry_delay`: seconds between attempts."""
        super().__init__(model)
        self.num_retries = num_retries
        self.retry_delay = retry_delay

    async def complete(self, request: Request) -> Reply:
        """Raises the last attempt's error."""
        return await self._attempts(self.model.complete, request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Stream a reply; only a failure before the first chunk is tried again. Raises the last attempt's error."""
        opened: tuple[AsyncIterator[Chunk], list[Chunk]] = await self._attempts(_opened, self.model, request)
        stream, first = opened
        try:
            for chunk in first:
                yield chunk
            async for chunk in stream:
                yield chunk
        finally:
            if hasattr(stream, "aclose"):
                await stream.aclose()

    @property
    def _attempts(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ProviderError) and error.is_transient),
            stop=stop_after_attempt(self.num_retries + 1),
            wait=wait_fixed(self.retry_delay),
            before_sleep=before_sleep_log(logger, logging.INFO),
            reraise=True,
        )


async def _opened(model: Model, request: Request) -> tuple[AsyncIterator[Chunk], list[Chunk]]:
    """Return a stream, and its first chunk if it has one."""
    stream = model.stream(request)
    async for chunk in stream:
        return stream, [chunk]
    return stream, []


def resolve_model(given: Any) -> Model:
    """Return a Model: one that is given, a name (`provider/model`) through DSPy, or a dict.

    The dict holds `model`, `num_retries`, `retry_delay` and settings. Raises ValueError for anything else.
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, str):
        return _named(given, {})
    if not isinstance(given, Mapping) or "model" not in given:
        raise ValueError(f"model: a name such as 'openai/gpt-4o-mini', a dict with 'model', or a Model; got {given!r}")
    settings = dict(given)
    model, retries, delay = settings.pop("model"), settings.pop("num_retries", 0), settings.pop("retry_delay", 0.0)
    if not isinstance(retries, int) or retries < 0 or not isinstance(delay, int | float) or delay < 0:
        raise ValueError(f"model: num_retries and retry_delay must not be negative, got {retries!r} and {delay!r}")
    return Retrying(_named(model, settings) if isinstance(model, str) else resolve_model(model), retries, delay)


def _named(name: str, settings: dict[str, Any]) -> Model:
    from whichloop.dspy_seam import model_named  # imports DSPy, which takes a second: only a model by name needs it

    return model_named(name, settings)
