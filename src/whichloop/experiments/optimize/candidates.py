"""What a search tried and took, by candidate: plain data, told to watchers, and kept in the files of its design."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from whichloop.metrics.record import Record
from whichloop.protocol import Program, Prompt
from whichloop.protocol.files import readable
from whichloop.protocol.json_text import load_json, seal, sha256
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import OPTIMIZED
from whichloop.runs.manifest import first_problem
from whichloop.runs.store.files import CutShort, RunError, own_file, read_document, sealed_lines, write_whole

PROGRAM, ENDED = OPTIMIZED, "ended.json"
ROLLOUTS, PROPOSALS = "rollouts.jsonl", "proposals.jsonl"
FAILURE, CHATTER = "failure.txt", "dspy.log"
"""The traceback of a failed optimizer, and what DSPy printed and logged."""

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write an object with its checksum, whole or not at all, texts as they are."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, readable(seal(text.encode("utf-8", "backslashreplace")), path))


class JsonLinesLog:
    """A log to write; opening it removes a partial last line, which a kill may leave. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        whole = sum(len(seal(line)) for line in sealed_lines(path))
        self._file = own_file(path, os.O_CREAT)
        self._file.truncate(whole)
        self._file.seek(whole)

    def append(self, line: dict[str, Any]) -> None:
        """Append a line, which the system has from then on. Raises CutShort if the disk is full, and leaves no half of it."""
        data = memoryview(seal(_ENCODER.encode(line).encode("ascii") + b"\n"))
        with self._lock:
            start = self._file.tell()
            try:
                while data:
                    data = data[self._file.write(data) :]
            except OSError as error:
                self._file.truncate(start)
                raise CutShort(f"{self.path}: {error.strerror}; the run can be resumed") from None

    def close(self) -> None:
        """Close it once the disk has all."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()


def read_log(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place, as `file:number`, and object of each complete line; none without a file. Raises RunError for what is none."""
    for number, line in enumerate(sealed_lines(path), 1):
        where = f"{path}:{number}"
        try:
            data = load_json(line)
            if not isinstance(data, dict):
                raise ValueError("it must be a JSON object")
        except ValueError as error:
            raise RunError(f"{where}: not a line of a log: {error}") from None
        yield where, data


def log_digest(path: Path) -> dict[str, Any]:
    """Return the number of lines of a log, and their sha256 independent of their order."""
    lines = sorted(_ENCODER.encode(line) for _, line in read_log(path))
    return {"count": len(lines), "digest": sha256("\n".join(lines))}


T = TypeVar("T")


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))  # made when it is first needed: a command that reads no search does without


def plain(value: object) -> dict[str, Any]:
    """Return a dataclass of this package as plain JSON."""
    data: dict[str, Any] = _adapter(cast(Hashable, type(value))).dump_python(value, mode="json", by_alias=True)
    return data


def read_as(kind: type[T], data: object, where: str) -> T:
    """Read plain JSON. Raises RunError, which begins with `where` and names the field."""
    try:
        value: T = _adapter(cast(Hashable, kind)).validate_python(data)
    except ValidationError as error:
        raise RunError(f"{where}: {first_problem(error)}") from None
    return value


@dataclass(frozen=True, slots=True)
class SearchCost:
    """The trials and model requests of a search."""

    trials: int = 0
    """Rollouts of the loop; 0 for an optimizer's own requests."""
    calls: int = 0
    tokens: int = 0
    dollars: Annotated[float | None, Field(alias="cost_usd")] = None

    def __add__(self, other: SearchCost) -> SearchCost:
        known = [part for part in (self.dollars, other.dollars) if part is not None]
        dollars = sum(known) if known else None
        return SearchCost(self.trials + other.trials, self.calls + other.calls, self.tokens + other.tokens, dollars)


NO_COST = SearchCost()


class _Prompt(BaseModel):
    instructions: str
    demos: tuple[dict[str, Any], ...] = ()


def program_json(program: Program) -> dict[str, Any]:
    """Return the prompts of a program as plain JSON."""
    return {name: {"instructions": each.instructions, "demos": [*map(dict, each.demos)]} for name, each in program.items()}


def _program(data: object) -> Program:
    prompts: dict[str, _Prompt] = _adapter(dict[str, _Prompt]).validate_python(data)
    return {name: Prompt(each.instructions, {}, {}, each.demos) for name, each in prompts.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that an optimizer tried, with its scores so far."""

    number: int
    """The position in the order of trying; 0 is the design's own program."""
    digest: str
    program: Annotated[Program, PlainValidator(_program), PlainSerializer(program_json)]
    """Its prompts; of those that were read from a file the fields are not known."""
    train: Mapping[str, float] = field(default_factory=dict)
    """Task → mean score of its rollouts."""
    dev: Mapping[str, float] = field(default_factory=dict)


Status = Literal["finished", "budget", "failed"]


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The end of one design's optimization."""

    design: str
    status: Status
    """finished: the optimizer returned a program. budget, failed: it stopped early, and the best program so far was kept."""
    reason: str
    digest: str
    chosen: int
    candidates: tuple[Candidate, ...]
    """All programs, the design's own first."""
    before: Mapping[str, float]
    """Dev task → score of the design's own program."""
    after: Mapping[str, float]
    search: SearchCost
    """The optimizer's rollouts, which the budget limits."""
    proposals: SearchCost
    evaluation: SearchCost
    """The extra rollouts beyond the budget for `before` and `after`."""
    warnings: tuple[str, ...] = ()


def read_end(folder: Path) -> SearchEnd | None:
    """Read the end of a design's search; None before it. Raises RunError."""
    path = folder / ENDED
    try:
        return read_as(SearchEnd, read_document(path), str(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise error if isinstance(error, RunError) else RunError(f"{path}: {error}") from None


def tried_programs(folder: Path, end: SearchEnd, train_tasks: int) -> Iterator[tuple[Candidate, SearchCost]]:
    """Yield the programs that count as tried: the first, the kept one, and those that were scored on a dev task or all train tasks,
    or have instructions of their own; others are steps within an optimizer. Each with its rollouts, those for its dev scores beyond
    the budget among them. Raises RunError for a damaged log.
    """
    spent: dict[str, SearchCost] = defaultdict(SearchCost)
    for where, line in read_log(folder / ROLLOUTS):
        spent[line["key"][0]] += read_as(SearchCost, line["spent"], where)
    seen = set[tuple[str, ...]]()
    for each in end.candidates:
        texts = tuple(prompt.instructions for prompt in each.program.values())
        if each.number == end.chosen or each.dev or len(each.train) == train_tasks or texts not in seen:
            yield each, spent[each.digest]
        seen.add(texts)


class Watcher(Unwatched):
    """An observer of an optimization, called once at a time; a resumed run reports its replayed rollouts again."""

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None: ...
    def ended(self, design: str, end: SearchEnd) -> None: ...


SILENT = Watcher()
