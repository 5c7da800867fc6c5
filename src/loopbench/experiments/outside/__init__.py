"""Runs that other tools made, as run directories of ours: Inspect logs, pydantic-evals reports, tables.

Nothing of those tools is imported, nothing is unpacked to the disk, and no text of a file is run or used as a path.
"""

from .importing import FORMATS, Imported, import_files
from .joining import Wanted
from .told import Format, Reading
from .values import Scale

__all__ = ["FORMATS", "Format", "Imported", "Reading", "Scale", "Wanted", "import_files"]
