"""A wind tunnel for agent loops: the same tasks, tools, model behaviour and faults over interchangeable designs.

Public names load on first use; importing the package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy

if TYPE_CHECKING:
    from loopbench.api.questions import ablate, compare, gate, optimize, size, why
    from loopbench.datasets.task import Environment, StatelessEnvironment, Suite, Task
    from loopbench.dspy_seam import DspyModel
    from loopbench.dspy_seam.program import LoopProgram
    from loopbench.experiments.compare.prepare import prepare
    from loopbench.experiments.compare.results import results
    from loopbench.experiments.compare.run import run
    from loopbench.loops.bare import Bare, run_agent
    from loopbench.loops.finish import Finish
    from loopbench.loops.phased import Phased
    from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
    from loopbench.loops.stateless import Stateless
    from loopbench.models.fake import FakeModel
    from loopbench.models.profiles import Profile, load_profile
    from loopbench.models.real import open_model
    from loopbench.models.scripted import Script, Scripted
    from loopbench.protocol import Loop, Model, Outcome, Plan, PlannedCall, Query, Ref, StopReason, Tool, Toolbox, with_program
    from loopbench.reports.dataframes import Loaded, load
    from loopbench.runs.config import CompareConfig

_HOMES = {
    "loopbench.api.questions": ("ablate", "compare", "gate", "optimize", "size", "why"),
    "loopbench.datasets.task": ("Environment", "StatelessEnvironment", "Suite", "Task"),
    "loopbench.dspy_seam": ("DspyModel",),
    "loopbench.dspy_seam.program": ("LoopProgram",),
    "loopbench.experiments.compare.run": ("run",),
    "loopbench.runs.config": ("CompareConfig",),
    "loopbench.reports.dataframes": ("Loaded", "load"),
    "loopbench.experiments.compare.prepare": ("prepare",),
    "loopbench.experiments.compare.results": ("results",),
    "loopbench.loops.bare": ("Bare", "run_agent"),
    "loopbench.loops.finish": ("Finish",),
    "loopbench.loops.phased": ("Phased",),
    "loopbench.loops.react_extract": ("ReactExtract", "ReactExtractProgram"),
    "loopbench.loops.stateless": ("Stateless",),
    "loopbench.models.fake": ("FakeModel",),
    "loopbench.models.profiles": ("Profile", "load_profile"),
    "loopbench.models.real": ("open_model",),
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
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

__all__ = [
    "Bare",
    "CompareConfig",
    "DspyModel",
    "Environment",
    "FakeModel",
    "Finish",
    "Loaded",
    "Loop",
    "LoopProgram",
    "Model",
    "Outcome",
    "Phased",
    "Plan",
    "PlannedCall",
    "Profile",
    "Query",
    "ReactExtract",
    "ReactExtractProgram",
    "Ref",
    "Script",
    "Scripted",
    "Stateless",
    "StatelessEnvironment",
    "StopReason",
    "Suite",
    "Task",
    "Tool",
    "Toolbox",
    "ablate",
    "compare",
    "gate",
    "load",
    "load_profile",
    "open_model",
    "optimize",
    "prepare",
    "results",
    "run",
    "run_agent",
    "size",
    "why",
    "with_program",
]
