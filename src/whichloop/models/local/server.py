"""Serves weights in this process: llama.cpp's server, with OpenAI's protocol, on a free port of the loopback address.

The binding is the package xllamacpp, a wheel that needs no compiler. One server of a file serves all models of this process that
have it; it ends with the process.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from whichloop._extras import needed_by

from .weights import LIBRARY, Weights

SLOTS = 2
"""Requests that are answered at once; each has a context of its own."""
LOOPBACK = "127.0.0.1"
CONTEXT_TOKENS = 8192
"""Longest request and reply together, in tokens, unless the user says otherwise: that of SmolLM2."""
QUIET = -1
REMEMBERED_MIB = 512
"""Memory for the beginnings of prompts that were read, so that designs which take turns do not each begin anew."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server."""

    url: str
    """Its address, as clients of OpenAI's protocol take it."""
    process: Any
    """xllamacpp's server. Nothing answers once it is let go."""


def started_server(name: str, weights: Weights, context_tokens: int | None = None) -> LocalServer:
    """Return a server that has the weights in memory and answers. It takes seconds, and the same server comes again at once.

    `name`: the model, as errors call it. `context_tokens`: of one request and its reply. Raises ValueError, in one line: for the
    package that is missing, for a file that llama.cpp cannot load, and for a server that listens beyond the loopback address.
    """
    with needed_by(f"model {name}"):
        library = importlib.import_module(LIBRARY)
    try:
        return _started(library, str(weights.file), context_tokens or CONTEXT_TOKENS)
    except RuntimeError:  # its only word for any failure
        version = getattr(library, "__version__", "")
        raise ValueError(
            f"model {name!r}: {weights.file} could not be loaded: it is damaged, of a kind that xllamacpp {version} does not know, "
            "or too large for this machine's memory"
        ) from None


@cache
def _started(library: Any, file: str, context_tokens: int) -> LocalServer:
    """Start a server. Raises RuntimeError if it cannot load the file, and ValueError if it listens beyond the loopback address."""
    params = library.CommonParams()
    params.model.path = file
    params.hostnames = [LOOPBACK]
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * context_tokens
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 1) // 2)  # of two threads on one core, one waits for the other
    settings: Mapping[str, Any] = {"port": 0, "verbosity": QUIET, "warmup": False, "ui": False, "cache_ram_mib": REMEMBERED_MIB}
    for setting, value in settings.items():
        setattr(params, setting, value)
    process = library.Server(params)
    address = process.listening_address
    if urlsplit(address).hostname != LOOPBACK:  # whoever reaches it could use the model; it ends here, as nothing holds it
        raise ValueError(f"xllamacpp listens on {address}, and not on {LOOPBACK} alone, as told; install another version of it")
    return LocalServer(f"{address}/v1", process)
