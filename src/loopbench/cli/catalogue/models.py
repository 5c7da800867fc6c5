"""The list of models: how each kind is named."""

from __future__ import annotations

from .entry import CatalogueEntry


def entries() -> list[CatalogueEntry]:
    return [
        CatalogueEntry("scripted", "follows each task's plan as far as the prompt shows its results; needs no network and no key"),
        CatalogueEntry(
            "PROVIDER/NAME", "a real model through DSPy, such as openai/gpt-4o-mini; its key comes from the environment"
        ),
        CatalogueEntry("openai/NAME --base-url URL", "any OpenAI-compatible server"),
        CatalogueEntry("anthropic/NAME --base-url URL", "any server that speaks Anthropic's Messages"),
        CatalogueEntry("any of them --cassette FOLDER", "recorded (--cassette-mode record), or replayed without network and key"),
    ]
