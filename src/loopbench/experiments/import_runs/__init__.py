"""Importing runs of other tools as run directories: Inspect logs, pydantic-evals reports, tables, and other files of `formats/`.

The tools are not imported, nothing is unpacked to the disk, and no text of a file is run or used as a path.
"""

from .columns import parse_map
from .foreign_trials import Format, ReadingOptions
from .importing import ImportedRun, import_files, known_formats
from .joining import ImportRequest
from .values import ScoreScale

__all__ = ["Format", "ImportRequest", "ImportedRun", "ReadingOptions", "ScoreScale", "import_files", "known_formats", "parse_map"]
