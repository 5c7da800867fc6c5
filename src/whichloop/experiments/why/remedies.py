"""Which options of a built-in loop concern what it lost, as an ablation that measures whether another value would have helped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.built_in import builtin_names
from whichloop.runs.manifest import Settings
from whichloop.runs.registry import is_generated

FACTORS: Mapping[str, Mapping[Cause, tuple[str, ...]]] = {
    "bare": {
        "parse": ("max_consecutive_errors=3,6", "keep_bad_replies=true,false"),
        "tool argument": ("max_consecutive_errors=3,6", "check_types=false,true"),
        "fault not recovered": ("max_consecutive_errors=3,6", "on_provider_error=stop,observe"),
    },
    "finish": {
        "parse": ("parse_retries=2,5",),
        "tool argument": ("list_tools_in_error=false,true",),
        "termination": ("forced_finish=both,off",),
    },
    "phased": {
        "fault not recovered": ("max_rounds=5,8", "failed_dependency=run,skip,fail"),
        "tool argument": ("max_rounds=5,8",),
        "termination": ("max_rounds=5,8", "failed_dependency=run,skip,fail"),
    },
    "react_extract": {
        "parse": ("on_parse_error=finish,observe", "parse_retries=0,2"),
        "termination": ("tell_extract=false,true",),
    },
    "stateless": {
        "tool argument": ("constrain_names=false,true",),
        "fault not recovered": ("max_recovery_rounds=2,4", "enable_error_recovery=true,false"),
        "lost observation": ("max_history_length=10,none", "history_as=prose,messages"),
    },
}
"""Loop → cause of a loss → factors of an ablation, each an option with its default first. Step limits are the suite's."""

FENCES = "fences=refuse,read"
"""The option that reads replies in a code fence, its default first."""
GUARD = "guarded"
"""The loop that puts defences around another one."""
GUARDS = ("results=marked,plain", "tools=all,needed", "writes=free,confirmed")
"""Factors of the defences against instructions in results, which can be put around any loop, each with its default first."""


def ablation_of(arm: ArmInfo, cause: Cause, settings: Settings, fault: str = "") -> str:
    """Return the command that varies the options of an arm's loop that concern a cause; empty where none is known to.

    `fault`: the kind that most of these losses came from; of replies in a code fence only the option concerns that reads them, and
    no option helps a model that is weak in what prompts teach, such as units.
    Instructions that were obeyed concern no option of a loop, but those of the defences that can be put around any.
    Only of arms with the scripted model and a generated suite, and with the loop's defaults: for those a command says it all.
    """
    subject, factors = arm.loop, FACTORS.get(arm.loop, {}).get(cause, ())
    if cause == "obeyed instruction" and arm.loop in builtin_names("loop"):
        subject, factors = f"{GUARD}(loop={arm.loop})", GUARDS
    if cause == "parse" and fault == "wire.fenced" and arm.loop == "bare":
        factors = (FENCES,)
    is_known = arm.model == SCRIPTED and is_generated(settings.suite.partition("(")[0]) and not arm.options
    if fault.startswith("weakness.") or not factors or not is_known:
        return ""
    varied = [word for factor in factors for word in ("--vary", factor)]
    return shlex.join(["whichloop", "compare", "--loop", subject, *varied, "--suite", settings.suite, "--profile", arm.profile])
