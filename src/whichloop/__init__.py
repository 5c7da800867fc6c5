"""A wind tunnel for agent loops: the same tasks, tools, model behaviour and faults over interchangeable designs.

Public names load on first use; importing the package loads none of them.
"""

from __future__ import annotations

from ._lazy import lazy

_HOMES = {
    "whichloop.api.importing": ("import_results",),
    "whichloop.api.questions": ("bless", "compare", "gate", "optimize", "resume", "size", "why"),
    "whichloop.api.carry_out": ("WhichloopWarning",),
    "whichloop.checks.any": ("check",),
    "whichloop.datasets.importing.rows": ("suite_from_frame",),
    "whichloop.datasets.task": ("Environment", "StatelessEnvironment", "Suite", "Task"),
    "whichloop.dspy_seam": ("DspyModel",),
    "whichloop.dspy_seam.program": ("LoopProgram",),
    "whichloop.experiments.compare.results": ("results",),
    "whichloop.experiments.compare.run": ("prepare", "run"),
    "whichloop.loops.bare": ("Bare",),
    "whichloop.loops.bare_standalone": ("run_agent",),
    "whichloop.loops.finish": ("Finish",),
    "whichloop.loops.phased": ("Phased",),
    "whichloop.loops.react_extract": ("ReactExtract", "ReactExtractProgram"),
    "whichloop.loops.stateless": ("Stateless",),
    "whichloop.models.fake": ("FakeModel",),
    "whichloop.models.profiles": ("Profile", "load_profile"),
    "whichloop.models.local.model": ("open_model",),
    "whichloop.models.scripted": ("Script", "Scripted"),
    "whichloop.protocol": (
        "Loop",
        "Model",
        "Outcome",
        "Plan",
        "PlannedCall",
        "Query",
        "Ref",
        "StopReason",
        "Tool",
        "Toolbox",
        "with_program",
    ),
    "whichloop.protocol.tool_calls": ("current_call",),
    "whichloop.protocol.plan_lines": ("plan_from_lines",),
    "whichloop.protocol.redact": ("redact",),
    "whichloop.reports.dataframes": ("Loaded", "load"),
    "whichloop.runs.config": ("CompareConfig", "SettingError"),
}
_NEEDS = {
    "whichloop.dspy_seam": "dspy",
    "whichloop.dspy_seam.program": "dspy",
    "whichloop.loops.react_extract": "dspy",
    "whichloop.loops.stateless": "dspy",
    "whichloop.models.local.model": "dspy",
}
__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
