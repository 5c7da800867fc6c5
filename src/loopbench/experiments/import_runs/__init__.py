"""Importing runs of other tools as run directories: Inspect logs, pydantic-evals reports, tables, and other files of `formats/`.

The tools are not imported, nothing is unpacked to the disk, and no text of a file is run or used as a path.
"""

from .columns import check_map, parse_map
from .foreign_file import GivenRows
from .foreign_trials import Format, ReadingOptions
from .importing import ImportedRun, import_files, known_formats, run_place
from .joining import ImportRequest
from .values import ScoreScale

__all__ = [
    "Format",
    "GivenRows",
    "ImportRequest",
    "ImportedRun",
    "ReadingOptions",
    "ScoreScale",
    "check_map",
    "import_files",
    "known_formats",
    "parse_map",
    "run_place",
]
