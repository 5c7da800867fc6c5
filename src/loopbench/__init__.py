"""A wind tunnel for agent loops: the same tasks, tools, model behaviour and faults over interchangeable designs.

Public names load on first use; importing the package loads none of them.
"""

from __future__ import annotations

from ._lazy import lazy

_HOMES = {
    "loopbench.api.importing": ("import_results",),
    "loopbench.api.questions": ("ablate", "bless", "compare", "gate", "optimize", "size", "why"),
    "loopbench.api.resuming": ("resume",),
    "loopbench.api.warned": ("LoopbenchWarning",),
    "loopbench.datasets.importing.frame": ("suite_from_frame",),
    "loopbench.datasets.task": ("Environment", "StatelessEnvironment", "Suite", "Task"),
    "loopbench.dspy_seam": ("DspyModel",),
    "loopbench.dspy_seam.program": ("LoopProgram",),
    "loopbench.experiments.compare.prepare": ("prepare",),
    "loopbench.experiments.compare.results": ("results",),
    "loopbench.experiments.compare.run": ("run",),
    "loopbench.loops.bare": ("Bare",),
    "loopbench.loops.bare_standalone": ("run_agent",),
    "loopbench.loops.finish": ("Finish",),
    "loopbench.loops.phased": ("Phased",),
    "loopbench.loops.react_extract": ("ReactExtract", "ReactExtractProgram"),
    "loopbench.loops.stateless": ("Stateless",),
    "loopbench.models.fake": ("FakeModel",),
    "loopbench.models.profiles": ("Profile", "load_profile"),
    "loopbench.models.local.opening": ("open_model",),
    "loopbench.models.scripted": ("Script", "Scripted"),
    "loopbench.protocol": (
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
    "loopbench.protocol.current_call": ("current_call",),
    "loopbench.protocol.plan_lines": ("plan_from_lines",),
    "loopbench.protocol.redact": ("redact",),
    "loopbench.reports.dataframes": ("Loaded", "load"),
    "loopbench.runs.config": ("CompareConfig",),
}
_NEEDS = {
    "loopbench.dspy_seam": "dspy",
    "loopbench.dspy_seam.program": "dspy",
    "loopbench.loops.react_extract": "dspy",
    "loopbench.loops.stateless": "dspy",
    "loopbench.models.local.opening": "dspy",
}
__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
