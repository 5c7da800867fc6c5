"""LlamaIndex: `FunctionAgent` (docs.llamaindex.ai)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class LlamaIndex(Framework):
    """LlamaIndex's workflow agent with functions as tools."""

    requires: ClassVar = ("llama-index-core", "llama-index-llms-openai-like")


LOOP = LlamaIndex
