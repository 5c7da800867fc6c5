"""A trial's tools over MCP's standard input and output: passes each message on to the trial's own address.

    python mcp_stdio.py URL

Standard library only: it starts in a moment, in any Python. Messages are passed on side by side, so that a tool that hangs keeps no
other waiting.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

HEAD = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INTERNAL_ERROR = -32603
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_WRITING = threading.Lock()


def passed_on(url: str, line: bytes) -> Iterator[bytes]:
    """Yield what comes back for a message; nothing for one that wants no answer."""
    try:
        with DIRECT.open(urllib.request.Request(url, line, HEAD)) as response:  # noqa: S310  # the address is ours
            body: bytes = response.read()
            yield from _messages(body, response.headers.get_content_type())
    except urllib.error.HTTPError as error:
        body = error.read()
        yield body if b'"jsonrpc"' in body and _number(body) is not None else _failed(line, str(error))
    except (OSError, ValueError) as error:
        yield _failed(line, str(error))


def _messages(body: bytes, kind: str) -> Iterator[bytes]:
    if kind != "text/event-stream":
        yield body
        return
    for line in body.splitlines():
        if line.startswith(b"data: "):
            yield line.removeprefix(b"data: ")


def _failed(line: bytes, why: str) -> bytes:
    """Return the error that answers a message; nothing for a notification, or for what is no message at all."""
    number = _number(line)
    if number is None:
        return b""
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": INTERNAL_ERROR, "message": why}}).encode()


def _number(line: bytes) -> object:
    """Return the id of a message; None if it has none."""
    try:
        return json.loads(line)["id"]
    except (ValueError, KeyError, TypeError):
        return None


def answer(url: str, line: bytes) -> None:
    """Pass a message on, and write what comes back, each message on a line of its own."""
    for message in passed_on(url, line):
        if message.strip():
            with _WRITING:
                sys.stdout.buffer.write(message + b"\n")
                sys.stdout.buffer.flush()


def main() -> None:
    asking = []
    for line in sys.stdin.buffer:
        if line.strip():
            asking.append(threading.Thread(target=answer, args=(sys.argv[1], line)))
            asking[-1].start()
    for thread in asking:
        thread.join()


if __name__ == "__main__":
    main()
