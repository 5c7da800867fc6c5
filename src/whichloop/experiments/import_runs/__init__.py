"""Importing runs of other tools as run directories: Inspect logs, pydantic-evals reports, tables, and other files of `formats/`.

The tools are not imported, nothing is unpacked to the disk, and no text of a file is run or used as a path. Whatever is wrong in a
file is a ValueError of one line that names the place in it.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {
    "whichloop.experiments.import_runs.columns": ("check_map", "parse_map"),
    "whichloop.experiments.import_runs.foreign_file": ("GivenRows",),
    "whichloop.experiments.import_runs.foreign_trials": ("Format", "ReadingOptions"),
    "whichloop.experiments.import_runs.importing": ("ImportedRun", "import_files", "known_formats", "run_place"),
    "whichloop.experiments.import_runs.joining": ("ImportRequest",),
    "whichloop.experiments.import_runs.values": ("ScoreScale",),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
