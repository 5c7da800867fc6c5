"""The list of models: how each kind is named."""

from __future__ import annotations

from importlib.util import find_spec

from whichloop.models.local.weights import INSTALL, LIBRARY, find_weights
from whichloop.protocol.names import LOCAL, LOCAL_FILE, SCRIPTED

from .entry import CatalogueEntry


def entries() -> list[CatalogueEntry]:
    return [
        CatalogueEntry(SCRIPTED, "follows each task's plan as far as the prompt shows its results; needs no network and no key"),
        CatalogueEntry(
            "PROVIDER/NAME", "a real model through DSPy, such as openai/gpt-4o-mini; its key comes from the environment"
        ),
        CatalogueEntry(LOCAL, f"a small real model in this process, SmolLM2-135M-Instruct; no network and no key{_lacking()}"),
        CatalogueEntry(f"{LOCAL_FILE}FILE", "any other GGUF file in this process, such as local:~/models/qwen3-4b.gguf"),
        CatalogueEntry("openai/NAME --base-url URL", "any OpenAI-compatible server"),
        CatalogueEntry("anthropic/NAME --base-url URL", "any server that speaks Anthropic's Messages"),
        CatalogueEntry("any of them --cassette FOLDER", "recorded (--cassette-mode record), or replayed without network and key"),
    ]


def _lacking() -> str:
    """Say what the model in the box still needs here; empty if nothing."""
    try:
        find_weights(LOCAL)
    except ValueError:
        return f"; not installed here: {INSTALL}"
    return "" if find_spec(LIBRARY) else "; not installed here: pip install 'whichloop[local]'"
