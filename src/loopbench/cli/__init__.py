"""The command line: parse, call, print.

What carries out a run, and what the values of flags lead to, loads when it is called: the help of a command needs its flags alone.
"""

from __future__ import annotations

from loopbench._lazy import lazy

_HOMES = {
    "loopbench.cli.env_file": ("variables_in",),
    "loopbench.cli.mistakes": ("crash_text", "error_line", "exit_line", "usage_error_line"),
    "loopbench.cli.running": ("carry_out_new",),
    "loopbench.cli.searching": ("carry_out_search",),
    "loopbench.models.profiles": ("built_in_profiles",),
    "loopbench.protocol.installed": ("package_version",),
    "loopbench.runs.built_in": ("builtin_names", "loop_names"),
    "loopbench.runs.typed_runs": ("run_folder",),
    "loopbench.runs.permissions": ("Permissions",),
    "loopbench.runs.program_specs": ("program_spec",),
}

_NEEDS = {"loopbench.cli.searching": "dspy"}

__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
