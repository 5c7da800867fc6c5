"""Opens a `dspy.LM` by a model's name and an address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy.clients._litellm import get_litellm
from dspy.clients.model_metadata import model_info

from whichloop.protocol.names import near

from .clients import LOCAL_KEY

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
        hint = " ".join(filter(None, (near(provider, sorted(providers)), "a server of your own is openai/NAME with --base-url")))
        raise ValueError(f"model {name!r}: unknown provider; {hint}")
    # Cloud providers find their credentials in other places too; an API key is in the environment or nowhere.
    missing = [key for key in litellm.validate_environment(name)["missing_keys"] if key.endswith("_API_KEY")]
    if missing and url is None:
        raise ValueError(f"model {name!r}: no key: set {' and '.join(missing)} in the environment")
    return {"engine": "litellm"} | ({"api_key": LOCAL_KEY} if missing else {})
