"""An agent that runs as a service: a real server on loopback, in a thread, as a user's would be."""

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from openai import OpenAI

from tests.programs.agents import conversation
from whichloop.checks.program import check_program
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.programs.program import Service


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with urllib.request.urlopen(asked["tools_url"]) as answer:
            tools = json.load(answer)

        def call(name, arguments):
            body = json.dumps(arguments).encode()
            request = urllib.request.Request(f"{asked['tools_url']}/{name}", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["data"]

        try:
            with OpenAI(base_url=asked["base_url"], api_key=asked["api_key"]) as client:
                status, said = 200, {"answer": conversation(asked["question"], tools, client, asked["model"], call)}
        except Exception as error:
            status, said = 500, {"error": str(error)}
        self.send_response(status)
        self.end_headers()
        text = json.dumps(said).encode()
        self.wfile.write(text[:4])
        time.sleep(0.05)  # an answer may come in pieces
        self.wfile.write(text[4:])

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/solve"
    server.shutdown()
    server.server_close()


def test_a_service_is_checked_as_any_agent(address):
    names = ("unknown_tool", "empty", "server_error_always", "rate_limit")
    found = check_program(Service(address), faults=[BY_NAME[name] for name in names])
    assert {one.fault: one.outcome for one in found.findings} == dict(
        zip(names, ("told", "silent", "error", "handled"), strict=True)
    )


def test_a_service_that_is_not_there_is_told():
    with pytest.raises(OSError, match=r"nothing answers at http://127.0.0.1:9/"):
        check_program(Service("http://127.0.0.1:9/"))
