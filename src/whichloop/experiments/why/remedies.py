"""Which options of a built-in loop concern what it lost, as an ablation that measures whether another value would have helped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol.names import SCRIPTED, Spec
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

FENCED, FENCES, REFUSED, READ = "wire.fenced", "fences", "refuse", "read"
"""Replies in a code fence, the option that reads them, its default and the value with which it does."""
GUARD = "guarded"
"""The loop that puts defences around another one."""
GUARDS = ("results=marked,plain", "tools=all,needed", "writes=free,confirmed")
"""Factors of the defences against instructions in results, which can be put around any loop, each with its default first."""


@dataclass(frozen=True, slots=True)
class ProposedAblation:
    """An ablation that measures whether another value of an option would have helped."""

    loop: str
    factors: tuple[str, ...]
    """Options with their values, the default first: `parse_retries=2,5`."""
    suite: str
    profile: str
    cure: str = ""
    """The loop with the option that is known to get past the fault, `bare(fences=read)`; empty where only a run can tell."""

    @property
    def command(self) -> str:
        """As it is typed in a shell."""
        varied = [word for factor in self.factors for word in ("--vary", factor)]
        named = ["--loop", self.loop, *varied, "--suite", self.suite, "--profile", self.profile]
        return shlex.join(["whichloop", "compare", *named])


def ablation_of(arm: ArmInfo, cause: Cause, settings: Settings, fault: str = "") -> ProposedAblation | None:
    """Return the ablation that varies the options of an arm's loop that concern a cause; None where none is known to.

    `fault`: the kind that most of these losses came from; of replies in a code fence only the option concerns that reads them, and
    no option helps a model that is weak in what prompts teach, such as units.
    Instructions that were obeyed concern no option of a loop, but those of the defences that can be put around any.
    Only of arms with the scripted model and a generated suite, and with the loop's defaults: for those a command says it all.
    """
    subject, factors = arm.loop, FACTORS.get(arm.loop, {}).get(cause, ())
    if cause == "obeyed instruction" and arm.loop in builtin_names("loop"):
        subject, factors = f"{GUARD}(loop={arm.loop})", GUARDS
    cure = ""
    if cause == "parse" and fault == FENCED and arm.loop == "bare":
        factors, cure = (f"{FENCES}={REFUSED},{READ}",), str(Spec(arm.loop, {FENCES: READ}))
    if fault.startswith("weakness.") or not factors or arm.options:
        return None
    if arm.model != SCRIPTED or not is_generated(settings.suite.partition("(")[0]):
        return None
    return ProposedAblation(subject, factors, settings.suite, arm.profile, cure)
