"""The names of whichloop.experiments.import_runs for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from whichloop.experiments.import_runs.columns import check_map as check_map
from whichloop.experiments.import_runs.columns import parse_map as parse_map
from whichloop.experiments.import_runs.foreign_file import GivenRows as GivenRows
from whichloop.experiments.import_runs.foreign_trials import Format as Format
from whichloop.experiments.import_runs.foreign_trials import ReadingOptions as ReadingOptions
from whichloop.experiments.import_runs.importing import ImportedRun as ImportedRun
from whichloop.experiments.import_runs.importing import import_files as import_files
from whichloop.experiments.import_runs.importing import known_formats as known_formats
from whichloop.experiments.import_runs.importing import run_place as run_place
from whichloop.experiments.import_runs.joining import ImportRequest as ImportRequest
from whichloop.experiments.import_runs.values import ScoreScale as ScoreScale
