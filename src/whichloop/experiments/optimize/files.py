"""The names in an optimization's run directory."""

from __future__ import annotations

from pathlib import Path

from whichloop.protocol import Prompt, program_digest, read_program
from whichloop.runs.folders import OPTIMIZED
from whichloop.runs.store.files import RunError

PROGRAM, ENDED, CANDIDATES = OPTIMIZED, "ended.json", "candidates.json"
FAILURE = "failure.txt"
"""The traceback of a failed optimizer."""
ROLLOUTS, PROPOSALS = "rollouts.jsonl", "proposals.jsonl"


def saved_digest(path: Path) -> str:
    """Return the digest of a file's program. Raises RunError for anything else."""
    try:
        state = read_program(path).state
        return program_digest({name: Prompt(instructions, {}, {}, demos) for name, (instructions, demos) in state.items()})
    except ValueError as error:  # which names the file
        raise RunError(str(error)) from None
