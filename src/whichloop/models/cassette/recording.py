"""The recording of one model: a file of JSON lines, appended to while a run goes on and put in order when it has ended whole."""

from __future__ import annotations

import gzip
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from whichloop.protocol import Capabilities
from whichloop.protocol.digest import is_whole_but_for_its_end, sha256
from whichloop.protocol.files import open_regular
from whichloop.protocol.json_text import Json

from .lines import (
    FULL_ID,
    MAX_LINE,
    NO_LINES,
    Exchange,
    Lane,
    LinesSeal,
    LinesTally,
    Parts,
    RecordedRequest,
    decode,
    encode,
    escaped,
    exchange_line,
    header_line,
    part_id,
    part_line,
    read_exchange,
    read_header,
    read_part,
)

MAX_BYTES = 1 << 31
"""The largest recording, in bytes, unpacked."""
MIN_PACKED_BYTES = 1 << 26
MAX_RATIO = 200
"""A packed recording may expand to MIN_PACKED_BYTES, or to this many times its size; real ones expand to 20 times at most."""
MAX_SLUG = 100
MAX_REASON_CHARS = 200
_EDITED = "the file was damaged or edited; restore it, or delete it and record anew"


def slug(model: str) -> str:
    """Return a model's name as the name of a file, without its ending."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-")[:MAX_SLUG]
    return plain or f"model-{sha256(model)[:8]}"


class Recording:
    """The recording of one model. Raises ValueError, with file and line, for a file that is not a recording of it."""

    def __init__(self, folder: Path, model: str) -> None:
        self.model = model
        self.path = folder / f"{slug(model)}.jsonl"
        self.capabilities: Capabilities | None = None
        self.unsettled: set[Lane] = set()
        """Trials in which a request met a failure that is not recorded."""
        self._parts: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._by_key: dict[tuple[str, int, int], dict[tuple[str, str, str], Exchange]] = {}
        self._fresh: set[RecordedRequest] = set()
        """Recorded by this process."""
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        self._closed = False
        self._whole = 0
        """Length in bytes of the file's whole lines."""
        self._ends_open = False
        """The last of them lacks its line's end."""
        source = source_of(self.path)
        if source is not None:
            self._read_file(source)

    def __iter__(self) -> Iterator[Exchange]:
        for alike in self._by_key.values():
            yield from alike.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    # --- looking up ---

    def find(self, request: RecordedRequest) -> Exchange | None:
        """Return the trial's own exchange, else another's of the same key: first by arm, then by task, then in file order.

        What others have recorded since the file was opened does not count: it would depend on which of them came first.
        """
        alike = self._by_key.get(request.key)
        if alike is None:
            return None
        own_exchange = alike.get(request.owner)
        if own_exchange is not None:
            return own_exchange
        others = [other for other in alike.values() if other.request not in self._fresh]
        return min(others, key=lambda other: _strangeness(request, other.request), default=None)

    @cached_property
    def by_task(self) -> Mapping[str, list[Exchange]]:
        """All exchanges in file order, by task; for a recording that grows no more."""
        exchanges: dict[str, list[Exchange]] = {}
        for exchange in sorted(self, key=lambda exchange: exchange.request.place):
            exchanges.setdefault(exchange.request.lane.task, []).append(exchange)
        return exchanges

    def request(self, exchange: Exchange) -> dict[str, Any]:
        """Return the request of an exchange in its canonical form."""
        parts = exchange.parts
        value: dict[str, Any] = {"messages": [self._parts[name][1] for name in parts.messages]}
        if parts.tools:
            value["tools"] = [self._parts[name][1] for name in parts.tools]
        if parts.schema is not None:
            value["response_schema"] = self._parts[parts.schema][1]["value"]
        if parts.grammar is not None:
            value["grammar"] = self._parts[parts.grammar][1]["value"]
        return value | dict(parts.settings)

    # --- recording ---

    def add(self, exchange: Exchange, request: Mapping[str, object]) -> Exchange:
        """Record an exchange and its canonical request, in the file when this returns. Return the exchange as it will be read.

        Raises ValueError for what cannot be read back, OSError where the file cannot be written: then nothing of it was.
        """
        with self._lock:
            parts, new = self._take_apart(request)
            line = encode(exchange_line(replace(exchange, parts=parts)))
            stored = read_exchange(decode(line))
            part_lines = {name: encode(part_line(kind, name, value)) for name, (kind, value) in new.items()}
            for each in (*part_lines.values(), line):
                if len(each) > MAX_LINE:
                    raise ValueError(f"a line of {len(each)} bytes, the longest has {MAX_LINE}")
            if not self._closed:  # else: a stream that was given up, and ends after its run
                self._append(b"".join((*part_lines.values(), line)))
            for name, part in part_lines.items():
                kind, _, value = read_part(decode(part))
                self._parts[name] = (kind, value)
            self._index(stored)
            self._fresh.add(stored.request)
            return stored

    def close(self, keep: Callable[[RecordedRequest, bool], bool] | None) -> None:
        """Bring all to the disk; with `keep` in order, and only what it keeps, given a request and whether it was recorded now.

        Raises OSError where that fails; what was recorded before is still whole.
        """
        with self._lock:
            self._closed = True
            if self._file is None:
                return
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            if keep is not None:
                self._rewrite(each for each in self if keep(each.request, each.request in self._fresh))

    def _take_apart(self, request: Mapping[str, Any]) -> tuple[Parts, dict[str, tuple[str, Mapping[str, Json]]]]:
        """Return the request by the ids of its parts, and those parts that are new."""
        new: dict[str, tuple[str, Mapping[str, Any]]] = {}

        def name_of(kind: str, value: Mapping[str, Any]) -> str:
            for name in (part_id(kind, value), part_id(kind, value, FULL_ID)):
                part = self._parts.get(name) or new.setdefault(name, (kind, value))
                if part == (kind, value):
                    return name
            raise ValueError(f"{kind} {name} stands for something else in {self.path.name}")

        rest = dict(request)
        messages = tuple(name_of("message", message) for message in rest.pop("messages"))
        tools = tuple(name_of("tool", tool) for tool in rest.pop("tools", ()))
        schema = name_of("schema", {"value": rest.pop("response_schema")}) if "response_schema" in rest else None
        grammar = name_of("grammar", {"value": rest.pop("grammar")}) if "grammar" in rest else None
        return Parts(messages, tools, schema, grammar, rest), new

    def _append(self, data: bytes) -> None:
        """Append all of it, or nothing."""
        file = self._file or self._open()
        start = file.seek(0, os.SEEK_END)
        unwritten = memoryview(data)
        try:
            while unwritten:
                unwritten = unwritten[file.write(unwritten) :]
        except BaseException:
            file.truncate(start)
            raise

    def _open(self) -> FileIO:
        """Open the file for appending, without the torn end that a kill may have left; a packed recording is unpacked first."""
        if not self.path.is_file() or self._whole == 0:
            self._rewrite(self)
            packed(self.path).unlink(missing_ok=True)
        self._file = file = self.path.open("r+b", buffering=0)
        file.truncate(self._whole)
        file.seek(0, os.SEEK_END)
        if self._ends_open:
            file.write(b"\n")
        return file

    def _rewrite(self, exchanges: Iterable[Exchange]) -> None:
        """Write the whole file anew, in order, or not at all."""
        scratch = self.path.with_name(f"{self.path.name}.part")
        try:
            assert self.capabilities is not None
            ordered, tally = sorted(exchanges, key=lambda exchange: exchange.request.place), LinesTally()
            for line in self._rendered(ordered):
                tally.add(line)
            with scratch.open("wb") as file:
                file.write(encode(header_line(self.model, self.capabilities, tally.seal())))
                file.writelines(self._rendered(ordered))
                self._whole, self._ends_open = file.tell(), False
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.path)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        handle = os.open(self.path.parent, os.O_RDONLY)  # so that the file is still there after a power cut
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _rendered(self, exchanges: Iterable[Exchange]) -> Iterator[bytes]:
        """Yield all lines but the first; each part comes before the first exchange that needs it."""
        written: set[str] = set()
        for exchange in exchanges:
            for name in (name for _, name in _references(exchange.parts)):
                if name not in written:
                    written.add(name)
                    yield encode(part_line(self._parts[name][0], name, self._parts[name][1]))
            yield encode(exchange_line(exchange))

    def _index(self, exchange: Exchange) -> None:
        self._by_key.setdefault(exchange.request.key, {})[exchange.request.owner] = exchange

    # --- reading ---

    def _read_file(self, source: Path) -> None:
        exchanges: list[tuple[int, Exchange]] = []
        sealed, tally = NO_LINES, LinesTally()
        for number, line in read_lines(source):
            ends_open = not line.endswith(b"\n")
            whole_line = line + b"\n" if ends_open else line
            try:
                value = decode(whole_line)
            except ValueError as error:
                if ends_open and not is_whole_but_for_its_end(line):
                    break  # torn by a kill
                raise _bad(source, number, error) from None
            try:
                if number == 1:
                    sealed = self._read_header(value)
                elif "request" in value:
                    exchanges.append((number, read_exchange(value)))
                else:
                    self._read_part(value)
            except ValueError as error:
                raise _bad(source, number, error) from None
            self._whole += len(line)
            self._ends_open = ends_open
            if number > 1:
                tally.add(whole_line)
            if tally.lines == sealed.lines and tally.seal() != sealed:
                raise _bad(source, 1, f"tells of {sealed.lines} lines, and others follow, or in another order: {_EDITED}")
        if tally.lines < sealed.lines:
            raise _bad(source, 1, f"tells of {sealed.lines} lines, and {tally.lines} follow: {_EDITED}")
        for number, exchange in exchanges:
            lost = next((name for kind, name in _references(exchange.parts) if self._parts.get(name, ("",))[0] != kind), None)
            if lost is not None:
                raise _bad(source, number, f"refers to {lost!r}, which is not recorded")
            self._index(exchange)

    def _read_header(self, value: Mapping[str, object]) -> LinesSeal:
        header = read_header(value)
        self.capabilities = header.capabilities
        if header.model != self.model:
            raise ValueError(f"records the model {header.model!r}, and {self.model!r} would have the same file: use another folder")
        return header.sealed

    def _read_part(self, value: Mapping[str, object]) -> None:
        kind, name, content = read_part(value)
        if self._parts.setdefault(name, (kind, content)) != (kind, content):
            raise ValueError(f"{kind} {name} stands for something else before")


def _strangeness(request: RecordedRequest, other: RecordedRequest) -> tuple[Any, ...]:
    mine, its = request.lane, other.lane
    return (its.arm != mine.arm, its.task != mine.task, other.scope != request.scope, other.place)


def _references(parts: Parts) -> Iterator[tuple[str, str]]:
    """Yield kind and id of all parts of a request."""
    yield from (("tool", name) for name in parts.tools)
    if parts.schema is not None:
        yield "schema", parts.schema
    if parts.grammar is not None:
        yield "grammar", parts.grammar
    yield from (("message", name) for name in parts.messages)


# --- files ---


def _bad(source: Path, number: int, why: object) -> ValueError:
    """Return the error for a line; long reasons are shortened."""
    text = str(why)
    return ValueError(f"{source}:{number}: {escaped(text[:MAX_REASON_CHARS])}{'…' if len(text) > MAX_REASON_CHARS else ''}")


def packed(path: Path) -> Path:
    """Return the path of a recording's packed file."""
    return path.with_name(f"{path.name}.gz")


def source_of(path: Path) -> Path | None:
    """Return the file to read: the plain one, else the packed one; None if absent."""
    return next((source for source in (path, packed(path)) if source.is_file()), None)


def recorded_models(folder: Path) -> list[str]:
    """Return the models of a folder's recordings, sorted; other files are passed over."""
    names = set()
    for source in (*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")):
        try:
            for _, line in read_lines(source):
                names.add(read_header(decode(line)).model)
                break
        except ValueError:
            continue
    return sorted(names)


def read_lines(source: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines, numbered from 1, with their ends. Raises ValueError for a file that cannot be read, or is too large."""
    bytes_left, number = MAX_BYTES, 0
    try:
        if source.suffix == ".gz":
            bytes_left = max(MIN_PACKED_BYTES, MAX_RATIO * source.stat().st_size)
        with _opened(source) as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                bytes_left -= len(line)
                if len(line) > MAX_LINE or bytes_left < 0:
                    raise ValueError(f"{source}:{number}: too long")
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source}: {getattr(error, 'strerror', None) or error}") from None


def _opened(source: Path) -> BinaryIO | gzip.GzipFile:
    file = open_regular(source)
    if source.suffix != ".gz":
        return file
    file.close()
    return gzip.open(source, "rb")
