"""A `dspy.LM` as a Model: one attempt per call, streamed or whole, with the provider's own words for a failure."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy.clients._litellm import get_litellm
from dspy.clients.model_metadata import model_info

from whichloop.protocol import Capabilities, Chunk, Reply, Request
from whichloop.protocol.model import whole_reply
from whichloop.protocol.names import SCRIPTED, near

from .clients import LOCAL_KEY, Client, HttpClient, client_of
from .errors import failure_of, slip_in

_MILLION = 1_000_000
_PRICE_DIGITS = 9
"""Digits behind the point of dollars for a million tokens: 1.5e-07 a token are 0.15."""


class ClientModel:
    """A Model over a client."""

    def __init__(self, name: str, client: Client, capabilities: Capabilities, price: tuple[float, ...] = ()) -> None:
        """`price`: as `listed_price` gives it."""
        self.name = name
        self.client = client
        self.capabilities = capabilities
        self.price = price

    @property
    def is_priced(self) -> bool:
        """Whether the list has the model's price."""
        return bool(self.price)

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises ProviderError and ContextOverflow, without cause and context: those may hold a key."""
        return await whole_reply(self._chunks(self._whole(request)))

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply in pieces. Closing the stream early closes the connection. Raises what `complete` raises."""
        return self._chunks(self.client.stream(request))

    async def _whole(self, request: Request) -> AsyncGenerator[Chunk, None]:
        yield Chunk(reply=await self.client.complete(request))

    async def _chunks(self, source: AsyncGenerator[Chunk, None]) -> AsyncGenerator[Chunk, None]:
        text = ""
        try:
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    text += chunk.text
                    yield chunk if chunk.reply is None else replace(chunk, reply=self._priced(chunk.reply))
            return
        except Exception as error:
            failure = failure_of(error, self.name)
        if not (calls := slip_in(failure)):
            raise failure  # outside of the handler, which would set a context
        yield Chunk(reply=Reply(text, calls, finish_reason="tool_calls"))

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.client.aclose()

    def _priced(self, reply: Reply) -> Reply:
        return replace(reply, usage=reply.usage.priced(*self.price)) if reply.usage is not None and self.price else reply


class DspyModel(ClientModel):
    """Any `dspy.LM` as a Model: OpenAI, Anthropic, Ollama, vLLM, or an OpenAI-compatible server."""

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        client = client_of(lm)
        name = client.model.removeprefix(f"{client.provider}/")
        # LiteLLM's list, shipped with DSPy and read offline.
        listed: Mapping[str, Any] = model_info(client.provider, name) if client.provider else {}
        # A model that is missing there is assumed to take tools; if it does not, it will say so.
        tools = (client.provider is not None and not listed) or bool(lm.supports_function_calling)
        longest = listed.get("max_input_tokens")
        capabilities = Capabilities(
            native_tools=tools,
            tool_choice=tools and listed.get("supports_tool_choice") is not False,
            response_schema=bool(lm.supports_response_schema),
            streaming=client.streams,
            parallel_calls=tools,
            context_tokens=longest if isinstance(longest, int) else None,
        )
        super().__init__(str(lm.model), client, capabilities, _price(listed))


def _price(listed: Mapping[str, Any]) -> tuple[float, ...]:
    prices = [listed.get(key) for key in ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")]
    amounts = [round(each * _MILLION, _PRICE_DIGITS) for each in prices if each is not None]
    return tuple(amounts) if None not in prices[:2] else ()


def listed_price(name: str) -> tuple[float, ...]:
    """Return what a million tokens of a model cost, `openai/gpt-4o-mini`, from the list that DSPy ships, in US dollars.

    Input, output and, where the list has it, input from a cache; empty for a model that it does not price.
    """
    provider, _, model = name.partition("/")
    return _price(model_info(provider, model) if model else {})


def local_client(url: str, model: str = SCRIPTED) -> ClientModel:
    """Return a model behind a server on this machine, without key, price and proxy."""
    client = HttpClient(lambda: lm15.OpenAIChatLM(api_key=LOCAL_KEY, base_url=url, transport=object()), "openai-chat", model, url)
    return ClientModel(f"openai/{model}", client, Capabilities(response_schema=True))


def model_named(name: str, settings: Mapping[str, object]) -> DspyModel:
    """Return the model that DSPy knows by a name. `settings`: of `dspy.LM`; without them nothing is cached or tried again."""
    return DspyModel(dspy.LM(name, **{"cache": False, "num_retries": 0} | dict(settings)))


RESPONSES = "responses/"
"""What stands before an OpenAI model's name, as in LiteLLM's names, to ask it over Responses."""


def open_lm(name: str, base_url: str | None = None) -> Any:
    """Return a `dspy.LM` by DSPy's name for it, `provider/model`; its key comes from the environment. Opens no connection.

    `base_url`: a server or gateway that speaks the provider's protocol, OpenAI's if the provider is `openai`; by default what
    `PROVIDER_BASE_URL` names, or the provider's own.
    Raises ValueError, in one line, for an unknown provider, a provider without its key, and a text that is not an address.
    """
    provider, _, model = name.partition("/")
    if not provider or not model:
        raise ValueError(f"model {name!r}: write provider/model, such as openai/gpt-4o-mini; local or local:FILE; or scripted")
    # A key for a gateway must not go to the provider itself: the address is read as OpenAI's and LiteLLM's clients do.
    set_url = os.environ.get(f"{provider.upper()}_BASE_URL") or os.environ.get(f"{provider.upper()}_API_BASE")
    url = _address(provider, base_url or set_url)
    named, kind = name, "chat"
    try:
        if provider == "openai" and (model.startswith(RESPONSES) or model_info(provider, model).get("mode") == "responses"):
            model = model.removeprefix(RESPONSES)
            if not model:
                raise ValueError(f"write openai/{RESPONSES}MODEL, such as openai/{RESPONSES}gpt-5-pro")
            named, kind = f"openai/{model}", "responses"
            settings = _native_settings(lm15.LMRouter().resolve(f"openai:{model}"), url)
        else:
            settings = _chat_settings(name, provider, url)
        settings |= {} if url is None else {"api_base": url}
        return dspy.LM(named, model_type=kind, cache=False, num_retries=0, **settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"model {name!r}: {error}") from None


def _address(provider: str, url: str | None) -> str | None:
    """Return an address as DSPy takes it. Raises ValueError, which does not repeat the address: it may hold a password."""
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
    # That of Anthropic's own clients, and so ANTHROPIC_BASE_URL, ends before /v1.
    lacks_version = provider == "anthropic" and not parts.path.rstrip("/").endswith("/v1")
    return f"{url.rstrip('/')}/v1" if lacks_version else url


def _chat_settings(name: str, provider: str, url: str | None) -> dict[str, str]:
    try:
        route = lm15.LMRouter().resolve_openai_chat(name)
    except lm15.UnknownModelError:
        return _litellm_settings(name, provider, url)
    # DSPy knows Azure's addresses by LiteLLM's rules only.
    is_litellms = url is not None and route.provider.startswith("azure")
    return _litellm_settings(name, provider, url) if is_litellms else _native_settings(route, url)


def _native_settings(route: lm15.Resolution, url: str | None) -> dict[str, str]:
    """Return the settings for a provider that DSPy reaches itself. Raises ValueError if its key is missing."""
    settings = {"engine": "lm15"}
    if url is not None and not os.environ.get(route.env_key or ""):
        return settings | {"api_key": LOCAL_KEY}
    try:
        lm15.LMRouter().lm(f"{route.provider}:{route.model}")
    except lm15.NotConfiguredError as error:
        keys = error.env_keys or ((route.env_key,) if route.env_key else ())
        how = f"set {' or '.join(keys)} in the environment" if keys else error.credential_hint
        raise ValueError(f"no key: {how}") from None
    return settings


def _litellm_settings(name: str, provider: str, url: str | None) -> dict[str, str]:
    """Return the settings for a provider of LiteLLM. Raises ValueError if LiteLLM lacks it or its key is missing."""
    litellm = get_litellm(feature=f"{provider}/…")
    providers = {str(getattr(item, "value", item)) for item in litellm.provider_list}
    if provider not in providers:
        hint = " ".join(filter(None, (near(provider, sorted(providers)), "a server of your own is openai/NAME with base_url")))
        raise ValueError(f"unknown provider; {hint}")
    # Cloud providers find their credentials in other places too; an API key is in the environment or nowhere.
    missing = [key for key in litellm.validate_environment(name)["missing_keys"] if key.endswith("_API_KEY")]
    if missing and url is None:
        raise ValueError(f"no key: set {' and '.join(missing)} in the environment")
    return {"engine": "litellm"} | ({"api_key": LOCAL_KEY} if missing else {})
