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

HEAD = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INTERNAL_ERROR = -32603
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_WRITING = threading.Lock()


def id_of(message: bytes) -> object:
    """Return the id of a message; None for a notification, and for what is no message at all."""
    try:
        return json.loads(message)["id"]
    except (ValueError, KeyError, TypeError):
        return None


def pass_on(url: str, line: bytes) -> None:
    """Pass a message on, and write what comes back, each message on a line. A request that fails is answered with an error."""
    failure, body, is_stream = "", b"", False
    try:
        with DIRECT.open(urllib.request.Request(url, line, HEAD)) as response:  # noqa: S310  # the address is ours
            body, is_stream = response.read(), response.headers.get_content_type() == "text/event-stream"
    except (OSError, ValueError) as error:
        failure = str(error)
        body = error.read() if isinstance(error, urllib.error.HTTPError) else b""
    if failure and id_of(body) is None:
        broken = {"jsonrpc": "2.0", "id": id_of(line), "error": {"code": INTERNAL_ERROR, "message": failure}}
        body = b"" if broken["id"] is None else json.dumps(broken).encode()
    messages = [part[6:] for part in body.splitlines() if part.startswith(b"data: ")] if is_stream else [body]
    with _WRITING:
        for message in filter(bytes.strip, messages):
            sys.stdout.buffer.write(message + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    for line in filter(bytes.strip, sys.stdin.buffer):
        threading.Thread(target=pass_on, args=(sys.argv[1], line)).start()  # none is a daemon: the end waits for all answers


if __name__ == "__main__":
    main()
