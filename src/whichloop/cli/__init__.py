"""The command line: parse, call, print.

What carries out a run, and what the values of flags lead to, loads when it is called: the help of a command needs its flags alone.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {
    "whichloop.cli.frameworks": ("framework_entries",),
    "whichloop.cli.mistakes": ("crash_text", "error_line", "exit_line", "usage_error_line"),
    "whichloop.cli.running": ("carry_out_new",),
    "whichloop.cli.searching": ("carry_out_search",),
    "whichloop.models.profiles": ("built_in_profiles",),
    "whichloop.protocol.modules": ("package_version",),
    "whichloop.runs.built_in": ("builtin_names", "loop_names"),
    "whichloop.runs.folders": ("run_folder",),
    "whichloop.runs.permissions": ("Permissions",),
    "whichloop.protocol.names": ("program_spec",),
}

_NEEDS = {"whichloop.cli.searching": "dspy"}

__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
