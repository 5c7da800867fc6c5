"""Real models by name, through DSPy's model layer: `openai/…`, `anthropic/…`, or any OpenAI-compatible server by address."""

from __future__ import annotations

import os

import dspy

from loopbench.dspy_seam import DspyModel

TIMEOUT_S = 120.0
RETRIES = 3
LOCAL_KEY = "none"
"""What a server of one's own is sent where no key is set: clients refuse to send nothing."""


def open_model(name: str, base_url: str | None = None) -> DspyModel:
    """A model by DSPy's name for it, `provider/model`; keys come from the environment.

    `base_url`: an OpenAI-compatible server. Raises ValueError for a name that DSPy cannot route.
    """
    if "/" not in name:
        raise ValueError(f"model {name!r}: write provider/model, such as openai/gpt-4o-mini, or scripted")
    settings = {} if base_url is None else {"api_base": base_url}
    if base_url is not None and not os.environ.get("OPENAI_API_KEY"):
        settings["api_key"] = LOCAL_KEY
    try:
        lm = dspy.LM(name, cache=False, num_retries=RETRIES, timeout=TIMEOUT_S, **settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"model {name!r}: {error}") from None
    return DspyModel(lm)
