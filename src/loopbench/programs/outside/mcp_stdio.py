"""A trial's tools over MCP's standard input and output: passes each message on to the trial's own address.

    python mcp_stdio.py URL

Standard library only.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request

HEAD = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INTERNAL_ERROR = -32603
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def passed_on(url: str, line: bytes) -> bytes:
    """Return the answer to a message; nothing for one that wants none."""
    try:
        with DIRECT.open(urllib.request.Request(url, line, HEAD)) as response:  # noqa: S310  # the address is ours
            body: bytes = response.read()
            return body
    except (OSError, ValueError) as error:
        try:
            number = json.loads(line)["id"]
        except (ValueError, KeyError, TypeError):  # a notification, or no message at all
            return b""
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": INTERNAL_ERROR, "message": str(error)}}).encode()


def main() -> None:
    for line in sys.stdin.buffer:
        if line.strip() and (answer := passed_on(sys.argv[1], line)):
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
