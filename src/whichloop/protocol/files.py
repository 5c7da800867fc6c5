"""Files from anywhere, images too, opened and read within bounds, and the folder that is kept for all runs of a user."""

from __future__ import annotations

import binascii
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Self

MAX_DOCUMENT = 1 << 24
"""Maximum size in bytes of a file that is read whole, such as a manifest. What Python makes of JSON may take 24 times as much."""
MAX_SETTINGS = 200_000
"""Maximum number of values of a file of settings. Each one is checked, and one that does not fit may take 1 KB to say so."""
MAX_LINE = 1 << 24
"""Maximum length in bytes of a line of a file that is read line by line."""


def file_error_words(error: OSError) -> str:
    """Return an error about a file in words: the file first, and no error number."""
    if error.filename is None or error.strerror is None:
        return str(error)
    words = {FileNotFoundError: "no such file", IsADirectoryError: "is a directory"}
    return f"{error.filename}: {words.get(type(error), error.strerror)}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an OSError within the block name this file, in the place of one beside it, unless that is in the way."""
    try:
        yield
    except OSError as error:
        is_in_the_way = error.filename2 is None and error.errno in (errno.EEXIST, errno.EISDIR, errno.ENOTDIR)
        if error.errno is None or is_in_the_way:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, never a pipe or a device, which may have no end. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(opened, path)
    except OSError:
        os.close(opened)
        raise
    return BufferedReader(FileIO(opened))


def check_regular(opened: int, path: Path) -> None:
    """Raise OSError unless this descriptor is that of a regular file."""
    mode = os.fstat(opened).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_bounded(path: Path, most: int = MAX_DOCUMENT) -> bytes:
    """Return all bytes of a regular file. Raises OSError, also if there are more than `most`."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return data


def readable(data: bytes, path: Path, *, settings: bool = False) -> bytes:
    """Return what shall be written as a file that is read whole. Raises OSError if its reader would refuse it."""
    if len(data) > MAX_DOCUMENT:
        raise OSError(errno.EFBIG, f"larger than {MAX_DOCUMENT >> 20} MiB", str(path))
    if settings and data.count(b",") > MAX_SETTINGS:
        raise OSError(errno.EFBIG, f"more than {MAX_SETTINGS} values", str(path))
    return data


def read_settings(path: Path) -> bytes:
    """Return all bytes of a file of settings. Raises OSError, also if it is too large or has more than MAX_SETTINGS values."""
    return readable(read_bounded(path), path, settings=True)


def each_line(path: Path) -> Iterator[bytes]:
    """Yield the lines of a regular file, with their ends. Raises OSError, also for one longer than MAX_LINE."""
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if len(line) > MAX_LINE:
                raise OSError(errno.EFBIG, f"line {number} is longer than {MAX_LINE >> 20} MiB", str(path))
            yield line


def home() -> Path:
    """Return the folder of environments of frameworks, of an empty MLflow store, and of digests of pages that were made."""
    folder = os.environ.get("WHICHLOOP_HOME")
    return Path(folder) if folder else Path.home() / ".local" / "share" / "whichloop"


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
        url = self.url
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
