"""Any loop over a model whose failed requests are sent again, as the clients of most frameworks do by default."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import ClassVar

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import at_least, checked_options
from whichloop.protocol.chat import Chunk
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.loop import Loop, WrappedLoop
from whichloop.protocol.model import Asks, Model, ModelAround, ProviderError, Request
from whichloop.protocol.outcome import AnswerT, Outcome, Query
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tools import Toolbox

logger = logger_of(__name__)

MAX_DELAY_S = 60.0
"""Longest wait before an attempt; a request whose provider asks for a longer one fails at once."""


@checked_options
@dataclass(frozen=True, slots=True)
class ProviderRetry(WrappedLoop):
    """A loop that does not see a provider's failure that passes. Raises TypeError for what is no loop.

    The default is that of OpenAI's clients, two more attempts (github.com/openai/openai-python, "Retries"), without their waits.
    """

    attempts: int = at_least(1, 3)
    """The number of times that a request is sent at most."""
    delay_s: float = at_least(0, 0.0)
    """Seconds before the second attempt, doubled before each further one up to 60, without jitter, so that runs can be repeated.

    A wait that the provider asks for (Retry-After) comes first; one of more than 60 seconds ends the request at once.
    """

    name: ClassVar[str] = "provider_retry"

    def __post_init__(self) -> None:
        if isinstance(self.loop, type) or not isinstance(self.loop, Loop):
            raise TypeError(f"loop: give a loop, such as Finish(), not {self.loop!r}")

    @property
    def provider_attempts(self) -> int:
        """How often a failed request is sent in all: the laws of loops allow no more."""
        return self.attempts

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        return await self.loop.run(query, tools, RetryingModel(model, self.attempts, self.delay_s, observer), observer)


class RetryingModel(ModelAround):
    """A model that sends a request again where another attempt may succeed."""

    def __init__(self, model: Model, attempts: int, delay_s: float, observer: Observer) -> None:
        super().__init__(model)
        self.attempts = attempts
        self.delay_s = delay_s
        self.observer = observer

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        """Yield the first reply that begins; one that breaks off later is not begun again.

        Raises the last failure, and at once what no other attempt mends in time.
        """
        for attempt in range(1, self.attempts + 1):
            begun = False
            try:
                async for chunk in ask(request):
                    begun = True
                    yield chunk
                return
            except ProviderError as error:
                if begun or attempt == self.attempts:
                    raise
                await self._wait(error, attempt)

    async def _wait(self, error: ProviderError, attempt: int) -> None:
        """Wait for the next attempt. Raises the error if there shall be none."""
        asked_s = error.retry_after_s
        if not error.is_transient or (asked_s is not None and asked_s > MAX_DELAY_S):
            raise error
        wait_s = min(self.delay_s * 2 ** (attempt - 1), MAX_DELAY_S) if asked_s is None else asked_s
        self.observer.note("provider_retry", attempt=attempt, error=str(error), delay_s=wait_s)
        logger.info("attempt %d of %d failed, and the next follows in %g s: %s", attempt, self.attempts, wait_s, error)
        await asyncio.sleep(wait_s)


LOOP = ProviderRetry
