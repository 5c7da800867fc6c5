"""Spans reach an OTLP endpoint: MLflow's own, and one that fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.running import Told
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.export_runs import export as sending
from whichloop.experiments.export_runs.export import SpanEndpoint, live_spans, send_run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records


class Receiver(HTTPServer):
    """Takes requests, and answers each with the next of `answers`, the last one from then on."""

    def __init__(self, answers: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Any]:
        scopes = [scope for body in self.bodies for item in body["resourceSpans"] for scope in item["scopeSpans"]]
        return [span for scope in scopes for span in scope["spans"]]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        if code == 200:
            assert self.path == "/v1/traces"
            self.server.bodies.append(json.loads(body))
            self.server.headers.append(dict(self.headers))
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Say nothing."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(sending, "WAITS_S", (0.0, 0.0))
    with Receiver([200]) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_run(tmp_path_factory.mktemp("sent") / "run", Unwatched())


def a_run(folder: Path, progress: Any) -> Path:
    config = CompareConfig(suite="arithmetic(size=3)", loops=("bare", "finish"), profiles=("clean",), mlflow=False)
    experiment = prepare(config, folder)
    if callable(progress):
        with progress(experiment.folder) as live:
            assert not run(experiment, live)
    else:
        assert not run(experiment, progress)
    return experiment.folder


def test_each_trial_is_sent_as_it_ends(tmp_path: Path, receiver: Receiver) -> None:
    notes = Told()
    folder = a_run(tmp_path / "run", lambda made: live_spans(notes, made, SpanEndpoint(receiver.address)))
    roots = [span for span in receiver.spans if "parentSpanId" not in span]
    assert len(roots) == len(read_records(folder)) == 6
    assert notes.notes == [f"spans of 6 trials sent to {receiver.address}/v1/traces"]


def test_an_endpoint_that_recovers_gets_all(ran: Path, receiver: Receiver) -> None:
    receiver.answers = [503, 429, 200]
    assert send_run(ran, receiver.address) == 6
    assert len([span for span in receiver.spans if "parentSpanId" not in span]) == 6


def test_an_endpoint_that_fails_costs_no_result(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [500]
    notes = Told()
    folder = a_run(tmp_path / "run", lambda made: live_spans(notes, made, SpanEndpoint(receiver.address)))
    assert len(read_records(folder)) == 6
    (said,) = notes.notes
    assert "6 could not be sent" in said
    assert "answers 500" in said
    with pytest.raises(OSError, match="answers 500"):
        send_run(folder, receiver.address)


def test_a_redirect_is_a_failure_and_takes_no_key_elsewhere(ran: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=S3CRET")
    asked: list[str] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("api-key", ""))
            self.send_response(200)
            self.end_headers()

        def end_headers(self) -> None:
            self.send_header("Location", f"{self.server.address}/other")
            super().end_headers()

    receiver.RequestHandlerClass = Elsewhere
    receiver.answers = [302]
    with pytest.raises(OSError, match="answers 302"):
        send_run(ran, receiver.address)
    assert asked == []


def test_headers_come_from_the_environment_and_those_that_http_does_not_have_are_refused(
    ran: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-mlflow-experiment-id=7, more=a%20b")
    send_run(ran, receiver.address)
    named = {name.lower(): value for name, value in receiver.headers[0].items()}
    assert (named["x-mlflow-experiment-id"], named["more"]) == ("7", "a b")
    forbidden = dict.fromkeys(("a=b%0Ac", "a b=c", "a=%E2%82%AC"), "has characters that HTTP does not allow")
    for headers, said in (forbidden | {"nothing": "NAME=VALUE"}).items():
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
        with pytest.raises(ValueError, match=said):
            SpanEndpoint(receiver.address)


def test_an_address_that_is_none_is_refused_and_so_is_a_password_which_is_not_repeated() -> None:
    others = ("localhost:4318", "ftp://x", "http://", "file:///etc/passwd", "", "http://localhost:abc", "http://localhost:99999")
    for address in (*others, "http://a b/"):
        with pytest.raises(ValueError, match="not an address such as http://localhost:4318"):
            SpanEndpoint(address)
    with pytest.raises(ValueError, match="a password has no place in the address") as raised:
        SpanEndpoint("http://me:S3CRETPASS@localhost:4318")
    assert "S3CRETPASS" not in str(raised.value)
