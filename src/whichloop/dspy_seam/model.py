"""A `dspy.LM` as a Model: one attempt per call, streamed or whole, with the provider's own words for a failure."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy._vendor.lm15.result import StreamAccumulator
from dspy.clients._litellm import get_litellm
from dspy.clients.costs import estimate_cost
from dspy.clients.errors import wrap_error
from dspy.clients.model_metadata import model_info
from dspy.utils.exceptions import LMError

from whichloop.protocol import CallDelta, Capabilities, Chunk, ModelError, NativeCall, ProviderError, Reply, Request
from whichloop.protocol.names import SCRIPTED, near
from whichloop.protocol.redact import redact

from .clients import LOCAL_KEY, Client, LocalClient, client_of
from .errors import missing_module, model_error
from .wire import Streamed, lm15_request, malformed_calls, reply_of, uncached

_PRICE_DIGITS = 9
"""Digits behind the point of dollars for a million tokens: 1.5e-07 a token are 0.15."""
_SETTINGS = frozenset(
    [
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "cache",
        "extra_body",
        "extra_headers",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "min_p",
        "model_type",
        "n",
        "num_retries",
        "organization",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "retry_delay",
        "rollout_id",
        "seed",
        "stop",
        "temperature",
        "thinking",
        "timeout",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    ]
)
"""What `dspy.LM` and the providers behind it take by these names; they take more."""
Extensions = Callable[[Request], Mapping[str, Any]]
"""Returns further top-level fields of a request's body."""


class Lm15Model:
    """A Model over a client that speaks lm15's types."""

    def __init__(self, name: str, client: Client, capabilities: Capabilities, extensions: Extensions | None = None) -> None:
        self.name = name
        self.client = client
        self.capabilities = capabilities
        self.extensions = extensions

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises ProviderError and ContextOverflow, without cause and context: those may hold a key."""
        sent = self._lm15(request)
        try:
            return self._reply(await self.client.complete(sent))
        except Exception as error:
            if calls := malformed_calls(error):
                return Reply("", calls, finish_reason="tool_calls")
            failure = self._as_our_error(error)
        raise failure  # outside of the handler, which would set a context

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply in pieces. Closing the stream early closes the connection. Raises what `complete` raises."""
        if not self.client.streams:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)
            return
        sent = self._lm15(request)
        whole, texts = StreamAccumulator(sent), list[str]()
        try:
            async with aclosing(self.client.stream(sent)) as events:
                async for event in events:
                    whole.push(event)
                    chunk = _chunk_of(event, whole)
                    if chunk is not None:
                        texts.append(chunk.text)
                        yield chunk
            yield Chunk(reply=self._reply(whole.response(), Streamed("".join(texts), _streamed_calls(whole))))
            return
        except Exception as error:
            calls, failure = malformed_calls(error), self._as_our_error(error)
        if not calls:
            raise failure
        yield Chunk(reply=Reply("".join(texts), calls, finish_reason="tool_calls"))

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.client.aclose()

    def _lm15(self, request: Request) -> object:
        try:
            return lm15_request(request, self.client.model, self.extensions and self.extensions(request))
        except (TypeError, ValueError) as error:
            failure = _not_sent(error)
        raise failure

    def _as_our_error(self, error: Exception) -> Exception:
        """Return whatever a client raises as one of our errors."""
        if not isinstance(error, ModelError) and (missing := missing_module(error)) is not None:
            return missing
        match error:
            case ModelError():
                return error
            case LMError():
                return model_error(error)
            case lm15.LM15Error():
                return model_error(wrap_error(error, model=self.name, provider=self.client.provider))
            case UnicodeEncodeError():
                return _not_sent(error)
        # An undocumented form of a body fails anywhere in lm15's readers.
        message = " ".join(redact(f"{type(error).__name__}: {error}").split())
        return ProviderError(f"the reply cannot be read: {message}", "server")

    def _reply(self, response: object, streamed: Streamed | None = None) -> Reply:
        reply = reply_of(response, self.client.provider, streamed)
        if reply.usage is None:
            return reply
        billed = self._cost_usd(response)
        nominal = billed if not reply.usage.cached_tokens else self._cost_usd(uncached(response, self.client.provider))
        return replace(reply, usage=replace(reply.usage, cost_usd=billed, nominal_usd=nominal))

    def _cost_usd(self, response: object) -> float | None:
        """Return US dollars by a price list; None without one."""
        return None


def _not_sent(error: Exception) -> ProviderError:
    return ProviderError(f"not sent: {' '.join(redact(str(error)).split())}", "bad_request")


def _chunk_of(event: Any, whole: Any) -> Chunk | None:
    """Return what one event adds to the reply; None if it adds nothing."""
    delta = event.delta if event.type == "delta" else None
    if delta is None:
        return None
    if delta.type == "text":
        return Chunk(delta.text)
    if delta.type == "tool_call":
        place = [*whole.tool_call_meta].index(delta.part_index)
        return Chunk(call=CallDelta(place, delta.id or "", delta.name or "", delta.input))
    return None


def _streamed_calls(whole: Any) -> tuple[NativeCall, ...]:
    """Return the calls in the order in which they began, with their arguments as they came."""
    return tuple(
        NativeCall(meta.get("id") or f"tool_call_{part}", meta["name"], whole.tool_call_raw[part])
        for part, meta in whole.tool_call_meta.items()
    )


class DspyModel(Lm15Model):
    """Any `dspy.LM` as a Model: OpenAI, Anthropic, Ollama, vLLM, or an OpenAI-compatible server."""

    def __init__(self, lm: Any, capabilities: Capabilities | None = None, extensions: Extensions | None = None) -> None:
        client = client_of(lm)
        self.lm = lm
        self._listed_as = client.model.removeprefix(f"{client.provider}/")
        # LiteLLM's price list, shipped with DSPy and read offline.
        self._listed: dict[str, Any] = model_info(client.provider, self._listed_as) if client.provider else {}
        super().__init__(str(lm.model), client, capabilities or self._supported(client), extensions)

    def _supported(self, client: Client) -> Capabilities:
        """Look the model up in DSPy's list. One that is missing there is assumed to take tools; if it does not, it will say so."""
        tools = (client.provider is not None and not self._listed) or bool(self.lm.supports_function_calling)
        longest = self._listed.get("max_input_tokens")
        return Capabilities(
            native_tools=tools,
            tool_choice=tools and self._listed.get("supports_tool_choice") is not False,
            response_schema=bool(self.lm.supports_response_schema),
            streaming=client.streams,
            parallel_calls=tools,
            context_tokens=longest if isinstance(longest, int) else None,
        )

    @property
    def is_priced(self) -> bool:
        """Whether DSPy's list has the model's price."""
        return "input_cost_per_token" in self._listed

    def _cost_usd(self, response: object) -> float | None:
        if not self.is_priced:
            return None
        cost, _ = estimate_cost(response, provider=self.client.provider, requested_model=self._listed_as)
        return None if cost is None else float(cost)


def listed_price(name: str) -> tuple[float, ...]:
    """Return what a million tokens of a model cost, `openai/gpt-4o-mini`, from the list that DSPy ships, in US dollars.

    Input, output and, where the list has it, input from a cache; empty for a model that it does not price.
    """
    provider, _, model = name.partition("/")
    listed = model_info(provider, model) if model else {}
    prices = [listed.get(key) for key in ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")]
    amounts = [round(each * 1_000_000, _PRICE_DIGITS) for each in prices if each is not None]
    return tuple(amounts) if None not in prices[:2] else ()


def local_client(url: str, extensions: Extensions | None = None, model: str = SCRIPTED, wire: str = "chat") -> Lm15Model:
    """Return a model behind a server on this machine: without retries, key, price and proxy. Cheap to make.

    `wire`: what the server speaks, as `models/server/chatting.py` names it.
    """
    return Lm15Model(f"openai/{model}", LocalClient(url, model, wire), Capabilities(response_schema=True), extensions)


def model_named(name: str, settings: Mapping[str, object]) -> DspyModel:
    """Return the model that DSPy knows by a name. `settings`: of `dspy.LM`; without them nothing is cached or tried again.

    Raises ValueError for a setting that is all but the name of a known one; any other may be its provider's own.
    """
    for setting in settings:
        meant = [] if setting in _SETTINGS else get_close_matches(setting, _SETTINGS, n=1, cutoff=0.85)
        if meant:
            raise ValueError(f"model: unknown setting {setting!r}; did you mean {meant[0]!r}?")
    return DspyModel(dspy.LM(name, **{"cache": False, "num_retries": 0} | dict(settings)))


RESPONSES = "responses/"
"""What stands before an OpenAI model's name, as in LiteLLM's names, to ask it over Responses."""


def open_lm(name: str, base_url: str | None = None) -> object:
    """Return a `dspy.LM` by DSPy's name for it, `provider/model`; its key comes from the environment. Opens no connection.

    `base_url`: a server or gateway that speaks the provider's protocol, OpenAI's if the provider is `openai`; by default what
    `PROVIDER_BASE_URL` names, or the provider's own.
    Raises ValueError, in one line, for an unknown provider, a provider without its key, and a text that is not an address.
    """
    provider, _, model = name.partition("/")
    if not provider or not model:
        name_form = "provider/model, such as openai/gpt-4o-mini, or local, or local:FILE; a comparison also takes scripted"
        raise ValueError(f"model {name!r}: write {name_form}")
    if provider == "openai" and (model.startswith(RESPONSES) or model_info(provider, model).get("mode") == "responses"):
        return _open_responses(name, model.removeprefix(RESPONSES), base_url)
    url = _with_version(provider, _checked_address(base_url or _address_in_environment(provider)))
    settings = {} if url is None else {"api_base": url}
    try:
        route = lm15.LMRouter().resolve_openai_chat(name)
    except lm15.UnknownModelError:
        settings |= _litellm_settings(name, provider, url)
    else:
        # DSPy knows Azure's addresses by LiteLLM's rules only.
        is_native = url is None or not route.provider.startswith("azure")
        settings |= _native_settings(name, route, url) if is_native else _litellm_settings(name, provider, url)
    return _opened(name, name, settings)


def _open_responses(name: str, model: str, base_url: str | None) -> object:
    """Return the LM of a model that is asked over OpenAI's Responses. `name`: what the user wrote."""
    if not model:
        raise ValueError(f"model {name!r}: write openai/{RESPONSES}MODEL, such as openai/{RESPONSES}gpt-5-pro")
    url = _checked_address(base_url or _address_in_environment("openai"))
    named = f"openai/{model}"
    settings = {} if url is None else {"api_base": url}
    return _opened(name, named, settings | _native_settings(name, lm15.LMRouter().resolve(f"openai:{model}"), url), "responses")


def _opened(name: str, named: str, settings: Mapping[str, str], model_type: str = "chat") -> Any:
    try:
        return dspy.LM(named, model_type=model_type, cache=False, num_retries=0, **settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"model {name!r}: {error}") from None


def _address_in_environment(provider: str) -> str | None:
    """Read the address as OpenAI's and LiteLLM's clients do: a key for a gateway must not go to the provider itself."""
    return os.environ.get(f"{provider.upper()}_BASE_URL") or os.environ.get(f"{provider.upper()}_API_BASE")


def _checked_address(url: str | None) -> str | None:
    """Check an address. Raises ValueError, which does not repeat the address: it may hold a password."""
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


def _with_version(provider: str, url: str | None) -> str | None:
    """Return an address as DSPy takes it. That of Anthropic's own clients, and so `ANTHROPIC_BASE_URL`, ends before `/v1`."""
    if provider != "anthropic" or url is None or urlsplit(url).path.rstrip("/").endswith("/v1"):
        return url
    return f"{url.rstrip('/')}/v1"


def _native_settings(name: str, route: lm15.Resolution, url: str | None) -> dict[str, str]:
    """Return the settings for a provider that DSPy reaches itself. Raises ValueError if its key is missing."""
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
    """Return the settings for a provider of LiteLLM. Raises ValueError if LiteLLM lacks it or its key is missing."""
    litellm = get_litellm(feature=f"{provider}/…")
    providers = {str(getattr(item, "value", item)) for item in litellm.provider_list}
    if provider not in providers:
        hint = " ".join(filter(None, (near(provider, sorted(providers)), "a server of your own is openai/NAME with base_url")))
        raise ValueError(f"model {name!r}: unknown provider; {hint}")
    # Cloud providers find their credentials in other places too; an API key is in the environment or nowhere.
    missing = [key for key in litellm.validate_environment(name)["missing_keys"] if key.endswith("_API_KEY")]
    if missing and url is None:
        raise ValueError(f"model {name!r}: no key: set {' and '.join(missing)} in the environment")
    return {"engine": "litellm"} | ({"api_key": LOCAL_KEY} if missing else {})
