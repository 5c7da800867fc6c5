"""Profiles that were measured of native calls and of calls in text: which of them fits a loop, and why they are not pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopbench.metrics.arm_info import ArmInfo
from loopbench.metrics.comparison import Comparison
from loopbench.models.profiles import measured_forms
from loopbench.text.counts import listed
from loopbench.text.numbers import short_name

IN_WORDS: Mapping[str, str] = {"native": "native calls", "text": "calls in text"}


def forms_of(infos: Sequence[ArmInfo]) -> dict[str, str]:
    """Return profile → `native` or `text`, of the profiles of a scripted run that were measured of calls in one form."""
    return measured_forms(dict.fromkeys(info.profile for info in infos)) if all(info.model == "scripted" for info in infos) else {}


def by_profile(comparison: Comparison, profile: str) -> Comparison:
    """Return the arms and pairs of one profile, by the verdicts of the whole comparison."""
    arms = tuple(arm for arm in comparison.arms if arm.info.profile == profile)
    names = {arm.info.arm for arm in arms}
    return Comparison(
        arms,
        tuple(pair for pair in comparison.pairs if pair.a in names),
        (),
        comparison.invalid,
        comparison.alpha,
        comparison.margin,
    )


def fitting(infos: Sequence[ArmInfo]) -> str:
    """Return which measured profile fits which loop, without a full stop; empty where all loops are known to fit them all."""
    forms = forms_of(infos)
    loops = {short_name(info): info.calls_in for info in infos if info.calls_in in IN_WORDS}
    if not forms or (all(form in ("", *forms.values()) for form in loops.values()) and len(set(forms.values())) == 1):
        return ""
    measured = [
        f"{listed([name for name in forms if forms[name] == form])} was measured of {IN_WORDS[form]}{_those(loops, form)}"
        for form in dict.fromkeys(forms.values())
    ]
    others = [form for form in dict.fromkeys(loops.values()) if form not in forms.values()]
    strangers = []
    for form in others:
        own = [loop for loop in loops if loops[loop] == form]
        strangers.append(f"{listed(own)} {'writes' if len(own) == 1 else 'write'} {IN_WORDS[form]}, of which no profile here was")
    return "; ".join([*measured, *strangers])


def _those(loops: Mapping[str, str], form: str) -> str:
    """Return `, as finish writes them`; empty where no loop is known to."""
    own = [loop for loop in loops if loops[loop] == form]
    return f", as {listed(own)} {'writes' if len(own) == 1 else 'write'} them" if own else ""
