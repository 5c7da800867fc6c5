"""Images in a conversation, as providers take them: by an address, or with their bytes."""

from __future__ import annotations

import binascii
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from .files import read_bounded

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What OpenAI, Anthropic and Gemini all take."""
_DATA = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
_ENDING = re.compile(r"\.(png|jpe?g|gif|webp)(?:[?#]|$)", re.IGNORECASE)
_STARTS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a model is shown beside a text.

    Raises ValueError for an address that is neither https:// or http:// nor a data URL of a PNG, JPEG, GIF or WebP image.
    """

    url: str
    """Where the provider fetches it; or `data:image/png;base64,…`, which holds it."""

    def __post_init__(self) -> None:
        url: Any = self.url
        if not isinstance(url, str):
            raise TypeError(f"Image: url must be a text, not {type(url).__name__}; Image.of(bytes) makes one of bytes")
        if url.startswith(("https://", "http://")):
            return
        data = _DATA.match(url)
        if data is None or data[1] not in MEDIA_TYPES:
            kinds = ", ".join(MEDIA_TYPES)
            raise ValueError(f"Image: url must be https://…, or data:TYPE;base64,… of one of {kinds}, not {url[:40]!r}")
        try:
            binascii.a2b_base64(url[data.end() :], strict_mode=True)
        except ValueError as error:  # also for what is not ASCII
            raise ValueError(f"Image: the data of the url is no base64: {error}") from None

    @classmethod
    def of(cls, given: bytes | str | os.PathLike[str]) -> Self:
        """Return the image of these bytes, or of this file. Raises ValueError for another format, OSError for the file."""
        data = given if isinstance(given, bytes) else read_bounded(Path(given))
        kind = next((kind for start, kind in _STARTS if data.startswith(start)), None)
        if kind is None:
            raise ValueError(f"Image: the bytes must be a PNG, JPEG, GIF or WebP image; they begin with {data[:8]!r}")
        return cls(f"data:{kind};base64,{binascii.b2a_base64(data, newline=False).decode('ascii')}")

    @property
    def data(self) -> tuple[str, str] | None:
        """Media type and base64 of an image that holds its bytes; None for one that has an address."""
        match = _DATA.match(self.url)
        return None if match is None else (match[1], self.url[match.end() :])

    @property
    def media_type(self) -> str:
        """Its format; of an address what the ending says, `image/png` if that says nothing. Gemini alone asks for it there."""
        if self.data is not None:
            return self.data[0]
        ending = _ENDING.search(self.url)
        return f"image/{ending[1].lower().replace('jpg', 'jpeg')}" if ending is not None else MEDIA_TYPES[0]

    def __repr__(self) -> str:
        """Show the beginning alone: the data of an image is long."""
        return f"Image({self.url[:40]!r}{'…' if len(self.url) > 40 else ''})"
