"""The names of loopbench.experiments.import_runs for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from loopbench.experiments.import_runs.columns import check_map as check_map
from loopbench.experiments.import_runs.columns import parse_map as parse_map
from loopbench.experiments.import_runs.foreign_file import GivenRows as GivenRows
from loopbench.experiments.import_runs.foreign_trials import Format as Format
from loopbench.experiments.import_runs.foreign_trials import ReadingOptions as ReadingOptions
from loopbench.experiments.import_runs.importing import ImportedRun as ImportedRun
from loopbench.experiments.import_runs.importing import import_files as import_files
from loopbench.experiments.import_runs.importing import known_formats as known_formats
from loopbench.experiments.import_runs.importing import run_place as run_place
from loopbench.experiments.import_runs.joining import ImportRequest as ImportRequest
from loopbench.experiments.import_runs.values import ScoreScale as ScoreScale
