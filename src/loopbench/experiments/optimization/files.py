"""The names in an optimization's run directory."""

from __future__ import annotations

from pathlib import Path

from loopbench.protocol import Prompt, program_digest, read_program
from loopbench.runs.store.files import MANIFEST, RunError, read_manifest

KIND = "optimization"
"""What its manifest says that it is."""
PROGRAM, ENDED, CANDIDATES = "optimized.json", "ended.json", "candidates.json"
FAILURE = "failure.txt"
"""Traceback of an optimizer that failed."""
ROLLOUTS, PROPOSALS = "rollouts.jsonl", "proposals.jsonl"
TEST = "test"
"""The folder of the comparison on the test split."""


def is_optimization(folder: Path) -> bool:
    """Whether a run directory is that of an optimization. Raises RunError where it is none at all."""
    return read_manifest(folder).get("kind") == KIND


def refuse_optimization(folder: Path, what: str) -> None:
    """Raises RunError for an optimization, and for its test, which is opened once; `what`: such as "extended"."""
    parent = folder.resolve().parent
    if is_optimization(folder):
        raise RunError(f"{folder}: this is an optimization, which cannot be {what}; only comparisons can")
    if folder.resolve().name == TEST and (parent / MANIFEST).is_file() and is_optimization(parent):
        raise RunError(f"{folder}: this is the test of an optimization, which is opened once: it cannot be {what}")


def trials_folder(folder: Path) -> Path:
    """Where a run's trials stand: its own directory, or that of an optimization's test. Raises RunError where none was begun."""
    if not is_optimization(folder):
        return folder
    if not (folder / TEST / MANIFEST).is_file():
        raise RunError(f"{folder}: no trial of the test split was run yet")
    return folder / TEST


def saved_digest(path: Path) -> str:
    """Of a file's program. Raises RunError for a file that is none."""
    try:
        state = read_program(path).state
        return program_digest({name: Prompt(instructions, {}, {}, demos) for name, (instructions, demos) in state.items()})
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # which names the file
        raise RunError(str(error)) from None
