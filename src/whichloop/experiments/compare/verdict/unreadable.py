"""Loops whose replies could not be read, because a model does not write them in the form that they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.comparison import ArmResult
from whichloop.protocol.names import SCRIPTED, Spec, is_local_model
from whichloop.protocol.values import counted
from whichloop.runs.built_in import form_option
from whichloop.text.numbers import MAX_NAMES, listed_names, short_name

from .sentence import AnswerSentence

WIRE = "wire"
"""The kind of error of a reply that was refused for its form."""
MIN_REFUSED = 0.9
"""Share of an arm's calls to its model from which on the form, and not the loop, is what its accuracy says."""
NATIVE = "native"


def unreadable_replies(arms: Sequence[ArmResult]) -> Iterator[AnswerSentence]:
    """Yield which loops could read hardly any reply of a real model, what that says, and what to do about it."""
    unreadable = [arm for arm in arms if _is_unreadable(arm)]
    if not unreadable:
        return
    arm_shares = [f"{short_name(arm.info)} {_share(arm)}" for arm in unreadable]
    listed_shares = listed_names(arm_shares[:MAX_NAMES]) + (
        f" and {counted(len(arm_shares) - MAX_NAMES, 'other arm')}" if len(arm_shares) > MAX_NAMES else ""
    )
    why = "the model does not write calls and answers as the loop asks for them (errors: wire), which says nothing of the loop else"
    cures = list(dict.fromkeys(filter(None, map(_cure, (arm.info for arm in unreadable)))))
    cure = f"; {' or '.join(cures)}" if cures else ""
    sentence = f"Replies that could not be read: {listed_shares}: {why}{cure}"
    yield AnswerSentence(sentence, f"Replies that could not be read: {listed_shares}{cure}", is_basis=True)


def _calls(arm: ArmResult) -> int:
    mean = arm.summary.means["lm_calls"]
    return 0 if mean is None else round(mean.value * arm.summary.scored)


def _is_unreadable(arm: ArmResult) -> bool:
    calls, refused = _calls(arm), arm.summary.errors.get(WIRE, 0)
    return arm.info.model != SCRIPTED and arm.info.profile != IMPORTED and calls > 0 and refused >= MIN_REFUSED * calls


def _share(arm: ArmResult) -> str:
    """Return `39 of 40`."""
    refused = arm.summary.errors[WIRE]
    return f"{refused:,} of {max(_calls(arm), refused):,}"


def _cure(info: ArmInfo) -> str:
    """Return how else to ask for calls, or how to hold a local model to what is asked for."""
    option, default = form_option(info.loop)
    if option and info.calls_in != NATIVE:
        return f"--loop '{Spec(info.loop, {**info.options, option: NATIVE})}' asks for native calls"
    if option and default != NATIVE:
        without = {name: value for name, value in info.options.items() if name != option}
        return f"--loop '{Spec(info.loop, without)}' asks for calls in text"
    return "--constrain holds a local model to the form" if is_local_model(info.model) else "whichloop why shows the replies"
