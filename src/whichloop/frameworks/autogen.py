"""AutoGen: `AssistantAgent` (microsoft.github.io/autogen)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class AutoGen(Framework):
    """AutoGen's assistant with functions as tools."""

    requires: ClassVar = ("autogen-agentchat", "autogen-ext[openai]")


LOOP = AutoGen
