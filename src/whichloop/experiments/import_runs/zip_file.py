"""Members of a zip file that came from anywhere: read in memory, within bounds, never unpacked to the disk.

Inspect packs its members with deflate or, of late, with zstd (method 93 of PKWARE's APPNOTE, 4.4.5), which Python's zipfile learns
in 3.14 only.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import IO, Any

import zstandard

ZSTD = 93
MAX_MEMBER_BYTES = 1 << 28
"""Largest member, unpacked: a quarter of a gigabyte is a trial with a very long trace."""
MAX_BYTES = 1 << 35
"""Most bytes of all members together, unpacked."""
MAX_RATIO = 10_000
"""Unpacked to packed, over all members: logs reach some hundreds, a zip bomb reaches millions."""
_BLOCK = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, zstandard.ZstdError, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, struct.error),
)


class ZipArchive:
    """The members of a zip file by name, the last one of each. Raises ValueError for another file, or if it unpacks to too much."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (*_UNREADABLE, IndexError, OverflowError) as error:
            raise ValueError(f"not a readable zip file: {error}") from None
        self._members = {member.filename: member for member in self._zip.infolist()}
        unpacked = sum(member.file_size for member in self._members.values())
        packed = sum(member.compress_size for member in self._members.values())
        if unpacked > min(MAX_BYTES, MAX_RATIO * max(packed, _BLOCK)):
            raise ValueError(f"its members unpack to {unpacked} bytes, more than is read")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Unpack one member. Raises ValueError if it is encrypted, too large, damaged, or packed in an unknown way."""
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise ValueError(f"{name}: encrypted")
        if max(member.file_size, member.compress_size) > MAX_MEMBER_BYTES:
            raise ValueError(f"{name}: more than {MAX_MEMBER_BYTES} bytes")
        try:
            with self._unpacking(member) as file:
                data = _at_most(file, member.file_size)
        except _UNREADABLE as error:
            raise ValueError(f"{name}: cannot be unpacked: {error}") from None
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise ValueError(f"{name}: damaged")
        return data

    def _unpacking(self, member: zipfile.ZipInfo) -> Any:
        """Open the member as a file; how much is read of it bounds what it unpacks to."""
        if member.compress_type != ZSTD:
            return self._zip.open(member)
        return zstandard.ZstdDecompressor().stream_reader(self._packed(member), read_across_frames=True)

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        """Return the bytes after the member's own header, in which names and extras may be longer than in the directory."""
        self._file.seek(member.header_offset)
        magic, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if magic != b"PK\x03\x04":
            raise zipfile.BadZipFile("there is no member where the directory says")
        self._file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
        return self._file.read(member.compress_size)


def _at_most(file: Any, size: int) -> bytes:
    """Read a file up to one byte more than it should have."""
    parts, remaining = [], size + 1
    while remaining > 0 and (part := file.read(min(remaining, _BLOCK))):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)
