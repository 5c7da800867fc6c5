"""Real models by name, through DSPy's model layer: `openai/…`, `anthropic/…`, or any OpenAI-compatible server by address."""

from __future__ import annotations

import asyncio
import difflib
import os
import random
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy.clients._litellm import get_litellm
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay

from loopbench.dspy_seam import DspyModel
from loopbench.protocol import Capabilities, Chunk, ProviderError, Reply, Request

PATIENCE_S = 30.0
"""Longest wait for one reply, in seconds, all attempts together."""
ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
"""Before the second attempt; twice as long before each further one."""
LOCAL_KEY = "none"
"""What a server of one's own is sent where no key is set: clients refuse to send nothing."""


class RealModel:
    """A provider's model: asked again after a transient failure, given up on after `patience_s`. Close it when done.

    Pauses between attempts are as long as the provider asks for (Retry-After), else they grow from `FIRST_PAUSE_S`. What would
    have to wait beyond `patience_s` fails at once.
    """

    def __init__(self, model: DspyModel, patience_s: float = PATIENCE_S) -> None:
        self.model = model
        self.patience_s = patience_s

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def capabilities(self) -> Capabilities:
        return self.model.capabilities

    async def complete(self, request: Request) -> Reply:
        """Raises ContextOverflow, and ProviderError: the last attempt's, or of kind `timeout` when patience has run out."""
        attempts = AsyncRetrying(
            retry=retry_if_exception(_is_transient),
            wait=_pause_s,
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(self.patience_s),
            reraise=True,
        )
        try:
            async with asyncio.timeout(self.patience_s):
                return await attempts(self.model.complete, request)
        except TimeoutError:
            raise ProviderError(f"no reply within {self.patience_s:g} s", "timeout") from None

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The whole reply as one chunk: a stream that has begun could not be begun again."""
        reply = await self.complete(request)
        yield Chunk(reply.text, reply=reply)

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.model.aclose()


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, ProviderError) and error.is_transient


def _pause_s(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after_s if isinstance(error, ProviderError) else None
    pause = asked if asked is not None else FIRST_PAUSE_S * 2 ** (state.attempt_number - 1)
    return pause + random.uniform(0, min(pause, 2.0) / 2)  # trials that were refused together come back apart


def open_model(name: str, base_url: str | None = None, *, patience_s: float = PATIENCE_S) -> RealModel:
    """A model by DSPy's name for it, `provider/model`; its key comes from the environment. Opens no connection.

    `base_url`: an OpenAI-compatible server or gateway; left out: what `PROVIDER_BASE_URL` names, else the provider's own.
    Raises ValueError, in one line, for an unknown provider, a provider without its key, and an address that is none.
    """
    provider, _, model = name.partition("/")
    if not provider or not model:
        raise ValueError(f"model {name!r}: write provider/model, such as openai/gpt-4o-mini, or scripted")
    url = _checked_address(base_url or _address_in_environment(provider))
    settings = {} if url is None else {"api_base": url}
    try:
        route = lm15.LMRouter().resolve_openai_chat(name)
    except lm15.UnknownModelError:
        settings |= _litellm_settings(name, provider, url)
    else:
        # DSPy knows Azure's addresses by LiteLLM's rules only.
        is_native = url is None or not route.provider.startswith("azure")
        settings |= _native_settings(name, route, url) if is_native else _litellm_settings(name, provider, url)
    try:
        lm = dspy.LM(name, cache=False, num_retries=0, **settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"model {name!r}: {error}") from None
    return RealModel(DspyModel(lm), patience_s)


def _address_in_environment(provider: str) -> str | None:
    """As OpenAI's and LiteLLM's clients read it: a key that is meant for a gateway must not go to the provider itself."""
    return os.environ.get(f"{provider.upper()}_BASE_URL") or os.environ.get(f"{provider.upper()}_API_BASE")


def _checked_address(url: str | None) -> str | None:
    """Raises ValueError, which does not repeat the address: it may hold a password."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError("base URL: write an address such as http://localhost:8000/v1")
    if "@" in parts.netloc:
        raise ValueError("base URL: user and password do not go into the address; set the provider's key in the environment")
    return url


def _native_settings(name: str, route: lm15.Resolution, url: str | None) -> dict[str, str]:
    """For a provider that DSPy reaches itself. Raises ValueError where its key is missing."""
    settings = {"engine": "lm15"}
    if url is not None and not os.environ.get(route.env_key or ""):
        return settings | {"api_key": LOCAL_KEY}
    try:
        lm15.LMRouter().lm(f"{route.provider}:{route.model}")
    except lm15.NotConfiguredError as error:
        keys = error.env_keys or ((route.env_key,) if route.env_key else ())
        how = f"set {' or '.join(keys)} in the environment" if keys else error.credential_hint
        raise ValueError(f"model {name!r}: no key: {how}") from None
    return settings


def _litellm_settings(name: str, provider: str, url: str | None) -> dict[str, str]:
    """For a provider that DSPy leaves to LiteLLM. Raises ValueError for one that LiteLLM does not know, or whose key is missing."""
    litellm = get_litellm(feature=f"{provider}/…")
    known = {str(getattr(item, "value", item)) for item in litellm.provider_list}
    if provider not in known:
        near = difflib.get_close_matches(provider, sorted(known), 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"model {name!r}: unknown provider; {hint}a server of your own is openai/NAME with --base-url")
    # Cloud providers find their credentials in other places too; an API key stands in the environment or nowhere.
    missing = [key for key in litellm.validate_environment(name)["missing_keys"] if key.endswith("_API_KEY")]
    if missing and url is None:
        raise ValueError(f"model {name!r}: no key: set {' and '.join(missing)} in the environment")
    return {"engine": "litellm"} | ({"api_key": LOCAL_KEY} if missing else {})
