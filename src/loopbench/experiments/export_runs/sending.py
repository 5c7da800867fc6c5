"""Sends the spans of trials to an OTLP endpoint over HTTP, as JSON: those of a finished run, or each trial's as it ends.

A trial is sent once it is in the run directory, from a thread of its own. What cannot be sent is told, and missing at the endpoint
only: `loopbench export RUN --otlp ADDRESS` sends it again.
"""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from loopbench.experiments.trace_formats.otlp_out import request_line, resource_spans
from loopbench.metrics.record import Record
from loopbench.runs.engine.runner import Progress
from loopbench.runs.store.files import RunError
from loopbench.runs.store.records import each_record, read_records

from .export import kept_trials, traced_of

TRACES_PATH = "/v1/traces"
"""Where an OTLP endpoint takes spans, if the address names no other place."""
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""Environment variable with more headers, `api-key=…,x-mlflow-experiment-id=0`, as OpenTelemetry's own exporters read it."""
BATCH = 32
"""Trials of one request."""
TIMEOUT_S = 10.0
WAITS_S = (0.5, 2.0)
"""Seconds before a request that failed is sent again."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_FAILED = 3
"""Requests in a row that failed for good, after which nothing more is sent."""


class SpanEndpoint:
    """An OTLP endpoint. Raises ValueError for an address that is not one of HTTP."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"--otlp {address}: not an address such as http://localhost:4318")
        self.url = address if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{TRACES_PATH}"
        self._headers = {"Content-Type": "application/json", **_more_headers(os.environ.get(HEADERS, ""))}
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in LOOPBACK else []
        self._opener = urllib.request.build_opener(*proxies)

    def post(self, body: bytes) -> None:
        """Send a request, again if it fails. Raises OSError with the reason if it fails for good."""
        for wait in (*WAITS_S, None):
            try:
                request = urllib.request.Request(self.url, body, self._headers, method="POST")  # noqa: S310  # http or https: checked
                with self._opener.open(request, timeout=TIMEOUT_S):
                    return
            except urllib.error.HTTPError as error:
                if wait is None or error.code not in (408, 429, 500, 502, 503, 504):
                    raise OSError(f"{self.url} answers {error.code} {error.reason}") from None
            except OSError as error:
                if wait is None:
                    raise OSError(f"{self.url}: {getattr(error, 'reason', None) or error}") from None
            threading.Event().wait(wait)


def _more_headers(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, values with percent signs decoded. Raises ValueError."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not name.strip() or not equals for name, equals, _ in pairs):
        raise ValueError(f"{HEADERS}: write NAME=VALUE, with commas between")
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def send_run(folder: Path, address: str) -> int:
    """Send all kept trials of a run; return their number. Raises RunError, ValueError for a bad address, and OSError."""
    endpoint = SpanEndpoint(address)
    records = traced_of(folder, read_records(folder))
    for batch in _batches(records):
        endpoint.post(_body(folder, batch))
    return len(records)


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    yield from (records[start : start + BATCH] for start in range(0, len(records), BATCH))


def _body(folder: Path, records: Sequence[Record]) -> bytes:
    return request_line([resource_spans(*trial) for trial in kept_trials(folder, records)])


class LiveSpans:
    """Progress that also sends each trial's spans soon after it ended; `close` sends the rest."""

    def __init__(self, progress: Progress, folder: Path, endpoint: SpanEndpoint) -> None:
        self.sent = 0
        self.unsent = 0
        self.problem = ""
        """Why the last request failed that did."""
        self._progress = progress
        self._folder = folder
        self._endpoint = endpoint
        self._seen = sum(1 for _ in each_record(folder))  # a resumed run: those were sent when they ended
        self._failed = 0
        self._ended = threading.Event()
        self._closing = threading.Event()
        self._sender = threading.Thread(target=self._send_on, name="spans", daemon=True)
        self._sender.start()

    def finished(self, record: Record) -> None:
        self._progress.finished(record)
        self._ended.set()

    def noted(self, text: str) -> None:
        self._progress.noted(text)

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._closing.set()
        self._ended.set()
        self._sender.join()

    @property
    def summary(self) -> str:
        """What became of it, in a line."""
        lost = f"; {self.unsent} could not be sent ({self.problem})" if self.unsent else ""
        return f"spans of {self.sent} trials sent to {self._endpoint.url}{lost}"

    # --- in the thread ---

    def _send_on(self) -> None:
        while not self._closing.is_set():
            self._ended.wait()
            self._ended.clear()
            self._closing.wait(1.0)  # the journal writes within a second
            self._send_new()
        self._send_new()

    def _send_new(self) -> None:
        try:
            new = list(islice(each_record(self._folder), self._seen, None))
        except (RunError, OSError) as error:  # a line that is being written; the next look reads it
            self.problem = " ".join(str(error).split())
            return
        self._seen += len(new)
        for batch in _batches([record for record in new if record.trace_at is not None]):
            self._send(batch)

    def _send(self, batch: Sequence[Record]) -> None:
        try:
            if self._failed < MAX_FAILED:
                self._endpoint.post(_body(self._folder, batch))
                self.sent, self._failed = self.sent + len(batch), 0
                return
        except (RunError, OSError) as error:
            self._failed += 1
            self.problem = " ".join(str(error).split())
        self.unsent += len(batch)


@contextmanager
def live_spans(progress: Progress, folder: Path, endpoint: SpanEndpoint | None) -> Iterator[LiveSpans | Progress]:
    """Yield the progress, which sends spans if there is an endpoint, and send the rest at the end."""
    if endpoint is None:
        yield progress
        return
    live = LiveSpans(progress, folder, endpoint)
    try:
        yield live
    finally:
        live.close()
        progress.noted(live.summary)
