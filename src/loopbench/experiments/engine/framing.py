"""Messages on a stream of bytes: each after its length, four bytes, the highest first."""

from __future__ import annotations

import struct

_LENGTH = struct.Struct(">I")


def framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


class Frames:
    """Takes a stream apart."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole by now."""
        rest = self._rest
        rest += data
        messages, at = [], 0
        while len(rest) - at >= _LENGTH.size:
            start = at + _LENGTH.size
            end = start + _LENGTH.unpack_from(rest, at)[0]
            if len(rest) < end:
                break
            messages.append(bytes(rest[start:end]))
            at = end
        del rest[:at]
        return messages
