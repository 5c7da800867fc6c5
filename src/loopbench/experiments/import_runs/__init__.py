"""Runs that other tools made, as run directories of ours: Inspect logs, pydantic-evals reports, tables.

Nothing of those tools is imported, nothing is unpacked to the disk, and no text of a file is run or used as a path.
"""

from .foreign_trials import Format, ReadingOptions
from .importing import FORMATS, Imported, import_files
from .joining import ImportRequest
from .values import ScoreScale

__all__ = ["FORMATS", "Format", "ImportRequest", "Imported", "ReadingOptions", "ScoreScale", "import_files"]
