"""The names of whichloop.cli for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from whichloop.cli.frameworks import framework_entries as framework_entries
from whichloop.cli.mistakes import crash_text as crash_text
from whichloop.cli.mistakes import error_line as error_line
from whichloop.cli.mistakes import exit_line as exit_line
from whichloop.cli.mistakes import usage_error_line as usage_error_line
from whichloop.cli.running import carry_out_new as carry_out_new
from whichloop.cli.searching import carry_out_search as carry_out_search
from whichloop.models.profiles import built_in_profiles as built_in_profiles
from whichloop.protocol.modules import package_version as package_version
from whichloop.protocol.names import program_spec as program_spec
from whichloop.runs.built_in import builtin_names as builtin_names
from whichloop.runs.built_in import loop_names as loop_names
from whichloop.runs.folders import run_folder as run_folder
from whichloop.runs.permissions import Permissions as Permissions
