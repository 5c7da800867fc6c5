"""What an interpreter of the user's own holds, and whether a function can be imported there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .worker import RUNNER, Solver

MAX_START_S = 300
"""Longest time that the imports of a program may take, in seconds."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One interpreter."""

    python: str
    """Its version."""
    packages: Mapping[str, str]
    """Package → version."""


def look_at(solver: Solver) -> Interpreter:
    """Start an interpreter once, and let it import the solver's function, if it names one. Raises ValueError if that fails."""
    folders = sorted(Path(solver.python).parent.parent.glob("lib/python*/site-packages"))
    return _look_at(solver, tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders))


@lru_cache(maxsize=256)  # each arm asks several times, and imports may take seconds; packages that changed are read again
def _look_at(solver: Solver, folders: tuple[tuple[str, int], ...]) -> Interpreter:
    command = [solver.python, str(RUNNER), solver.target]
    environment = None if solver.environment is None else dict(solver.environment)
    try:
        ended = subprocess.run(  # noqa: S603  # our own runner, in an interpreter that the user named
            command, capture_output=True, input=b"", check=False, env=environment, timeout=MAX_START_S
        )
        [(ending, content)] = json.loads(ended.stdout.splitlines()[0]).items()
    except subprocess.TimeoutExpired:
        raise ValueError(f"{solver.target}: its import did not end within {MAX_START_S} s") from None
    except OSError as error:
        raise ValueError(f"{solver.python}: {error.strerror}") from None
    except (ValueError, IndexError, AttributeError):
        last = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise ValueError(f"{solver.python} does not run what a program needs: {last[0]}") from None
    if ending != "ready":
        raise ValueError(f"{solver.target}: {content}")
    return Interpreter(content["python"], content["packages"])
