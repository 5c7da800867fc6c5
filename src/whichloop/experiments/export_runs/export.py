"""Writes the trials of a run in a format that other tools read, or sends their spans to an OTLP endpoint over HTTP, as JSON.

The spans of a run under way are sent as its trials end, each once it is in the run directory, from a thread of its own. What cannot
be sent is told, and missing at the endpoint only: `whichloop export RUN -o ADDRESS` sends it again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.protocol.json_text import digest
from whichloop.protocol.redact import public_address
from whichloop.protocol.values import counted, one_line
from whichloop.runs.engine.runner import Progress
from whichloop.runs.manifest import ArmEntry, read_manifest
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces, count_rows, each_record, read_records

from ..import_runs.foreign_trials import ImportedTask
from ..import_runs.own_trials import imported_task
from .atif import atif_of
from .otlp import request_line, resource_spans

KeptTrial = tuple[Trace, Record, ArmEntry, ImportedTask | None]
"""Trace, record and arm of a trial, and what an import knows of its task."""
MAX_NAME = 120
"""Characters of a file's name; a longer one ends in a digest."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def export_run(folder: Path, name: str, out: Path) -> tuple[int, int]:
    """Write the trials of a run to `out`, which must not exist; return how many, and how many have no trace and are left out.

    If anything fails, nothing is left.

    Raises RunError for a run that cannot be read or has no trace, ValueError for an unknown format or an existing `out`, OSError.
    """
    if name not in SUFFIXES:
        raise ValueError(f"--format {name}: there are {', '.join(SUFFIXES)}")
    if out.exists() or out.is_symlink():
        raise ValueError(f"--output {out}: exists already; take another name")
    records = read_records(folder)
    written = list(records) if name == LINES else traced_of(folder, records)
    try:
        if name == "atif":
            _write_files(folder, written, out)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            spans = (request_line([resource_spans(*trial)]) for trial in kept_trials(folder, written))
            with out.open("xb") as file:
                file.writelines(_records_as_lines(folder, written) if name == LINES else spans)
    except BaseException:
        if out.is_dir():
            shutil.rmtree(out, ignore_errors=True)
        else:
            out.unlink(missing_ok=True)
        raise
    return len(written), len(records) - len(written)


def traced_of(folder: Path, records: Sequence[Record]) -> list[Record]:
    """Return the records that have a trace. Raises RunError if none has."""
    traced = [record for record in records if record.trace_at]
    if not traced:
        raise RunError(f"{folder}: keeps no trace of any trial, so there is nothing to export")
    return traced


def kept_trials(folder: Path, records: Sequence[Record]) -> Iterator[KeptTrial]:
    """Yield each of these trials, which have a trace. Raises RunError."""
    manifest, traces = read_manifest(folder), Traces(folder)
    for record in records:
        arm = manifest.arm(record.arm)
        if arm is None:
            raise RunError(f"{folder}: the manifest has no arm {record.arm!r}")
        yield traces.read(record), record, arm, imported_task(manifest, record.task)


def _write_files(folder: Path, records: Sequence[Record], out: Path) -> None:
    out.mkdir(parents=True)
    names: set[str] = set()
    for trace, record, arm, task in kept_trials(folder, records):
        text = json.dumps(atif_of(trace, record, arm, task), ensure_ascii=False, indent=1, allow_nan=False)
        (out / _file_name(record, names)).write_bytes(f"{text}\n".encode("utf-8", "surrogatepass"))


def _records_as_lines(folder: Path, records: Sequence[Record]) -> Iterator[bytes]:
    """Yield a line for each trial: its record, and its trace or null."""
    traces = Traces(folder)
    for record in records:
        trace = traces.read(record).to_json() if record.trace_at else None
        told = {name: value for name, value in record.to_json().items() if name != "trace_at"}
        yield (json.dumps({"record": told, "trace": trace}, allow_nan=False) + "\n").encode()


LINES = "jsonl"
SUFFIXES: Mapping[str, str] = {"atif": "", "otlp": ".jsonl", LINES: ".jsonl"}
"""Name of a format → ending of what is written."""


def _file_name(record: Record, names: set[str]) -> str:
    """Return a name that any file system takes, and that no other trial has."""
    plain = _UNSAFE.sub("_", f"{record.arm}__{record.task}__{record.repeat}").lstrip(".")
    if len(plain) > MAX_NAME or plain.lower() in names:
        plain = f"{plain[: MAX_NAME - 17]}-{digest(list(record.key))[:16]}"
    names.add(plain.lower())
    return f"{plain}.json"


# --- to an endpoint ---

TRACES_PATH = "/v1/traces"
"""Where an OTLP endpoint takes spans, if the address names no other place."""
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""Environment variable with more headers, `api-key=…,x-mlflow-experiment-id=0`, as OpenTelemetry's own exporters read it."""
BATCH = 32
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

    def post(self, trials: Iterator[KeptTrial]) -> None:
        """Send the spans of trials, again if it fails. Raises OSError with the reason if it fails for good."""
        body = request_line([resource_spans(*trial) for trial in trials])
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
            time.sleep(wait)


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
        endpoint.post(kept_trials(folder, batch))
    return len(records)


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    yield from (records[start : start + BATCH] for start in range(0, len(records), BATCH))


class LiveSpans:
    """Progress that also sends each trial's spans soon after it ended; `close` sends the rest."""

    def __init__(self, progress: Progress, folder: Path, endpoint: SpanEndpoint) -> None:
        self.trials_sent = self.trials_unsent = 0
        self.problem = ""
        """Why the last request failed that did."""
        self._progress, self._folder, self._endpoint = progress, folder, endpoint
        self._rows = count_rows(folder)
        """Rows of the run that were read; those of a run that goes on were sent when they ended."""
        self._failed = 0
        self._sender, self._sent = ThreadPoolExecutor(1, "spans"), Future[None]()
        self._sent.set_result(None)

    def finished(self, record: Record) -> None:
        self._progress.finished(record)
        if self._sent.done():
            self._sent = self._sender.submit(self._send_new, 1.0)

    def noted(self, text: str) -> None:
        self._progress.noted(text)

    def interrupted(self, text: str) -> None:
        self._progress.interrupted(text)

    def close(self) -> None:
        """Send what is left, end the thread, and note what became of it."""
        self._sender.submit(self._send_new)
        self._sender.shutdown()
        lost = f"; {self.trials_unsent} could not be sent ({self.problem})" if self.trials_unsent else ""
        self._progress.noted(f"spans of {counted(self.trials_sent, 'trial')} sent to {self._endpoint.public_url}{lost}")

    def _send_new(self, wait: float = 0.0) -> None:
        time.sleep(wait)  # trials are written within a second
        try:
            new = list(each_record(self._folder, self._rows))
        except RunError as error:
            self.problem = one_line(str(error))
            return
        self._rows += len(new)
        for batch in _batches([record for record in new if record.trace_at]):
            try:
                if self._failed < MAX_FAILED:
                    self._endpoint.post(kept_trials(self._folder, batch))
                    self._failed = 0
            except (RunError, OSError) as error:
                self._failed += 1
                self.problem = one_line(str(error))
            sent = 0 if self._failed else len(batch)
            self.trials_sent, self.trials_unsent = self.trials_sent + sent, self.trials_unsent + len(batch) - sent


@contextmanager
def live_spans(progress: Progress, folder: Path, endpoint: SpanEndpoint | None) -> Iterator[LiveSpans | Progress]:
    """Yield the progress, which sends spans if there is an endpoint, and send the rest at the end."""
    live = None if endpoint is None else LiveSpans(progress, folder, endpoint)
    try:
        yield live or progress
    finally:
        if live is not None:
            live.close()
