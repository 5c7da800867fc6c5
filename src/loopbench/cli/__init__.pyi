"""The names of loopbench.cli for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from loopbench.cli.env_file import variables_in as variables_in
from loopbench.cli.mistakes import crash_text as crash_text
from loopbench.cli.mistakes import error_line as error_line
from loopbench.cli.mistakes import exit_line as exit_line
from loopbench.cli.mistakes import usage_error_line as usage_error_line
from loopbench.cli.running import carry_out_new as carry_out_new
from loopbench.cli.searching import carry_out_search as carry_out_search
from loopbench.models.profiles import built_in_profiles as built_in_profiles
from loopbench.protocol.installed import package_version as package_version
from loopbench.runs.built_in import builtin_names as builtin_names
from loopbench.runs.built_in import loop_names as loop_names
from loopbench.runs.permissions import Permissions as Permissions
from loopbench.runs.program_specs import program_spec as program_spec
from loopbench.runs.typed_runs import run_folder as run_folder
