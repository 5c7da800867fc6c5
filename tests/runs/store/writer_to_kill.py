"""Writes trials until it is killed, or has so many: `python -m tests.runs.store.writer_to_kill FOLDER TRIALS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.runs.store.trials import TrialWriter, read_records


def main() -> None:
    """Say how many trials are there already, each trial at which everything before it was made durable, and the end."""
    folder, trials = Path(sys.argv[1]), int(sys.argv[2])
    with TrialWriter(folder) as writer:
        done = {record.task for record in read_records(folder)}
        print("open", len(done), flush=True)
        for number in range(trials):
            task = f"t{number}"
            if task in done:
                continue
            noise = {"event": "note", "kind": "noise", "noise": [number * k % 9973 for k in range(400)]}
            trace = json.dumps({"arm": "a", "task": task, "repeat": 0, "events": [noise]})
            writer.append(Record("a", "s", "d", task, 0, 0, "scored", answer="x" * (number % 300)), trace.encode() + b"\n")
            if number % 37 == 0:
                writer.sync()
                print(task, flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main()
