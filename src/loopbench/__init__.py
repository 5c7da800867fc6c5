"""A wind tunnel for agent loops: the same tasks, tools, model behaviour and faults over interchangeable designs.

Public names load on first use; importing the package loads none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopbench.datasets.task import Environment, StatelessEnvironment, Suite, Task
    from loopbench.dspy_seam import DspyModel
    from loopbench.experiments.compare import prepare, results, run
    from loopbench.experiments.config import CompareConfig
    from loopbench.loops.bare import Bare, run_agent
    from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
    from loopbench.models.profiles import Profile, load_profile
    from loopbench.models.real import open_model
    from loopbench.models.scripted import Script, Scripted
    from loopbench.protocol import Loop, Model, Outcome, Plan, PlannedCall, Query, Ref, StopReason, Tool, Toolbox

_HOMES = {
    "loopbench.datasets.task": ("Environment", "StatelessEnvironment", "Suite", "Task"),
    "loopbench.dspy_seam": ("DspyModel",),
    "loopbench.experiments.compare": ("prepare", "results", "run"),
    "loopbench.experiments.config": ("CompareConfig",),
    "loopbench.loops.bare": ("Bare", "run_agent"),
    "loopbench.loops.react_extract": ("ReactExtract", "ReactExtractProgram"),
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
    ),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Bare",
    "CompareConfig",
    "DspyModel",
    "Environment",
    "Loop",
    "Model",
    "Outcome",
    "Plan",
    "PlannedCall",
    "Profile",
    "Query",
    "ReactExtract",
    "ReactExtractProgram",
    "Ref",
    "Script",
    "Scripted",
    "StatelessEnvironment",
    "StopReason",
    "Suite",
    "Task",
    "Tool",
    "Toolbox",
    "load_profile",
    "open_model",
    "prepare",
    "results",
    "run",
    "run_agent",
]


def __getattr__(name: str) -> Any:
    """PEP 562: find a public name's module when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
