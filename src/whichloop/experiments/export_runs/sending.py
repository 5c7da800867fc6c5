"""Sends the spans of trials to an OTLP endpoint over HTTP, as JSON: those of a finished run, or each trial's as it ends.

A trial is sent once it is in the run directory, from a thread of its own. What cannot be sent is told, and missing at the endpoint
only: `whichloop export RUN -o ADDRESS` sends it again.
"""

from __future__ import annotations

import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from whichloop.experiments.trace_formats.otlp_out import request_line, resource_spans
from whichloop.metrics.record import Record
from whichloop.protocol.redact import public_address
from whichloop.protocol.values import counted, one_line
from whichloop.runs.engine.runner import Progress
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import count_rows, read_all, read_records

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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a failure: urllib would go on without the spans, and give the headers and their keys to another host."""

    def redirect_request(self, *_: object) -> None:
        return None


class SpanEndpoint:
    """An OTLP endpoint. Raises ValueError for an address that is not one of HTTP, and for headers that HTTP does not have."""

    def __init__(self, address: str) -> None:
        public = public_address(address)
        try:
            parts = urlsplit(address)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # raised for a port that is no number
            is_address = False
        if not is_address or not re.fullmatch(r"[!-~]+", address):
            raise ValueError(f"{public}: not an address such as http://localhost:4318")
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{public}: a password has no place in the address; put a header into {HEADERS}")
        self.url = address if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{TRACES_PATH}"
        self.public_url = public_address(self.url)
        """The address without what may be secret in it."""
        self._headers = {"Content-Type": "application/json", **_more_headers(os.environ.get(HEADERS, ""))}
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in LOOPBACK else []
        self._opener = urllib.request.build_opener(_NoRedirects(), *proxies)

    def post(self, body: bytes) -> None:
        """Send a request, again if it fails. Raises OSError with the reason if it fails for good."""
        for wait in (*WAITS_S, None):
            try:
                request = urllib.request.Request(self.url, body, self._headers, method="POST")  # noqa: S310  # http or https: checked
                with self._opener.open(request, timeout=TIMEOUT_S):
                    return
            except urllib.error.HTTPError as error:
                if wait is None or error.code not in (408, 429, 500, 502, 503, 504):
                    raise OSError(f"{self.public_url} answers {error.code} {error.reason}") from None
            except (OSError, HTTPException) as error:
                if wait is None:
                    raise OSError(f"{self.public_url}: {getattr(error, 'reason', None) or error}") from None
            threading.Event().wait(wait)


def _more_headers(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, values with percent signs decoded. Raises ValueError."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not name.strip() or not equals for name, equals, _ in pairs):
        raise ValueError(f"{HEADERS}: write NAME=VALUE, with commas between")
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    for name, value in headers.items():
        if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII) or not re.fullmatch(r"[\t -~\xa0-\xff]*", value):
            raise ValueError(f"{HEADERS}: header {name!r} has characters that HTTP does not allow")
    return headers


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
        self.trials_sent = 0
        self.trials_unsent = 0
        self.problem = ""
        """Why the last request failed that did."""
        self._progress = progress
        self._folder = folder
        self._endpoint = endpoint
        self._rows = count_rows(folder)
        """Rows of the run that were read; those of a run that goes on were sent when they ended."""
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

    def interrupted(self, text: str) -> None:
        self._progress.interrupted(text)

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._closing.set()
        self._ended.set()
        self._sender.join()

    @property
    def summary(self) -> str:
        """What became of it, in a line."""
        lost = f"; {self.trials_unsent} could not be sent ({self.problem})" if self.trials_unsent else ""
        return f"spans of {counted(self.trials_sent, 'trial')} sent to {self._endpoint.public_url}{lost}"

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
            store = read_all(self._folder, after=self._rows)
        except RunError as error:
            self.problem = one_line(str(error))
            return
        self._rows += len(store.rows)
        new = store.records(np.arange(len(store.rows)))
        for batch in _batches([record for record in new if record.trace_at]):
            self._send(batch)

    def _send(self, batch: Sequence[Record]) -> None:
        try:
            if self._failed < MAX_FAILED:
                self._endpoint.post(_body(self._folder, batch))
                self.trials_sent, self._failed = self.trials_sent + len(batch), 0
                return
        except (RunError, OSError) as error:
            self._failed += 1
            self.problem = one_line(str(error))
        self.trials_unsent += len(batch)


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
