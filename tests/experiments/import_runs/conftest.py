"""Logs as other tools write them, made here; what such tools wrote themselves is in files/."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.experiments.fit_profile.helpers import known
from tests.experiments.fit_profile.helpers import run as run_trials
from tests.experiments.running import ran
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.runs.manifest import ArmEntry

ZSTD = 93
FILES = Path(__file__).with_name("files")
"""`capitals.eval`: inspect-ai 0.3.285 and its mockllm model; `capitals.json`: pydantic-evals 2.62. Tracebacks were taken out."""


@dataclass(frozen=True)
class Kit:
    """Makes files, and imports them."""

    folder: Path
    files: Path = FILES
    numbers: count[int] = field(default_factory=count)

    def put(self, content: Any, suffix: str = ".json") -> Path:
        """A file of its own: bytes and text as they are, all else as JSON."""
        raw = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
        path = self.folder / f"file{next(self.numbers)}{suffix}"
        path.write_bytes(raw)
        return path

    def sample(self, task: str | int, epoch: int = 1, value: Any = "C", **changed: Any) -> dict[str, Any]:
        """A sample of an Inspect log, of as few fields as it can have."""
        scores = {"match": {"value": value}}
        return {"id": task, "epoch": epoch, "input": f"What is {task}?", "target": "yes", "scores": scores, **changed}

    def log(self, *samples: Mapping[str, Any], solver: str = "react", spec: Mapping[str, Any] | None = None, **changed: Any) -> Any:
        """A log of Inspect, as `.json` has it."""
        told = {"task": "sums", "solver": solver, "model": "openai/gpt-4o-mini", **(spec or {})}
        return {"version": 2, "status": "success", "eval": told, "samples": list(samples), **changed}

    def members(self, log: Mapping[str, Any]) -> dict[str, bytes]:
        """What is in a `.eval` file."""
        samples = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in log["samples"]}
        header = {name: value for name, value in log.items() if name != "samples"}
        return {name: json.dumps(part).encode() for name, part in {**samples, "header.json": header}.items()}

    def archive(self, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
        """A zip file; zstd, which zipfile learns in Python 3.14, is put in by hand."""
        file = BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED if method == ZSTD else method) as made:
            for name, data in members.items():
                made.writestr(name, pyarrow.compress(data, "zstd", asbytes=True) if method == ZSTD else data)
        return _as_zstd(file.getvalue(), members) if method == ZSTD else file.getvalue()

    def imported(
        self, *paths: Path, arms: Sequence[str] = (), models: Sequence[str] = (), suite: str | None = None, **reading: Any
    ) -> Results:
        """A run directory of the files, read back."""
        wanted = ImportRequest(reading=ReadingOptions(**reading), arms=arms, models=models, suite=suite)
        return results(import_files(paths, wanted, self.folder / "runs" / f"run{next(self.numbers)}").folder)


def _as_zstd(raw: bytes, members: Mapping[str, bytes]) -> bytes:
    """Stored members that are zstd frames, declared to be that: method, checksum and length unpacked, in both headers of each."""
    made, central = bytearray(raw), raw.index(b"PK\x01\x02")
    for info in zipfile.ZipFile(BytesIO(raw)).infolist():
        data = members[info.filename]
        for at in (info.header_offset + 8, central + 10):
            struct.pack_into("<H", made, at, ZSTD)
            struct.pack_into("<L", made, at + 6, zlib.crc32(data))
            struct.pack_into("<L", made, at + 14, len(data))
        central += 46 + len(info.filename.encode())
    return bytes(made)


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return Kit(tmp_path_factory.mktemp("outside"))


@pytest.fixture(scope="session")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of whichloop's own with traces."""
    settings: dict[str, Any] = {
        "loops": ("bare", 'bare(decision_format="native")', "finish"),
        "suite": "arithmetic(size=4)",
        "repeats": 2,
    }
    return ran(tmp_path_factory.mktemp("own"), profiles=("flaky-tools",), **settings).folder


DESIGNS = ("bare", 'bare(decision_format="native")', "react_extract", "finish", "stateless")


@pytest.fixture(scope="session")
def own_trials() -> list[tuple[Record, Trace, ArmEntry]]:
    """Record, trace and arm of some trials of every design."""
    made = []
    for done in run_trials(DESIGNS, known(), size=6, repeats=1):
        arm = ArmEntry(arm=done.record.arm, loop=done.record.arm.partition("(")[0], options={}, model="scripted", profile="known")
        made.append((done.record, Trace.from_json(json.loads(done.trace)), arm))
    return made
