"""The model of one's own that the docs show answers over HTTP, and its failures are the provider's."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.docs.pages import DOCS
from tests.docs.samples import samples
from whichloop.loops import Bare, Finish, Query, StopReason, Toolbox

MADE = "class Gateway:"


class Completions(BaseHTTPRequestHandler):
    """Answers the first request with a call and the next with its result; without tools it fails."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        name, arguments = ("__finish__", {"answer": results[-1]}) if results else ("price", {"item": "tea"})
        call = {"id": f"c{len(results)}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        body = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
        self.send_response(200 if "tools" in asked else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def price(item: str) -> float:
    """What an item costs."""
    return 1.5


def test_a_model_of_ones_own_answers_over_http_and_its_failures_are_the_providers() -> None:
    pages = (page.read_text("utf-8") for page in DOCS.glob("*.md"))
    (code,) = (sample.text for page in pages for sample in samples(page) if MADE in sample.text)
    names: dict[str, Any] = {}
    exec(code, names)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        model = names["Gateway"](f"http://127.0.0.1:{server.server_port}/v1/chat/completions", "mine")
        outcome = Finish(max_steps=3).run_sync(Query("What does tea cost?"), Toolbox([price]), model)
        failed = Bare().run_sync(Query("What does tea cost?"), Toolbox([price]), model)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (outcome.answer, outcome.ok) == ("1.5", True)
    assert (failed.stop, failed.ok) == (StopReason.PROVIDER_ERROR, False)
    failure = failed.details["exception"]
    assert (failure.kind, failure.status, failure.is_transient) == ("server", 500, True)
