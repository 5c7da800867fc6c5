"""Where the model decides on a call once more because its prompt does not show what the call gave."""

from __future__ import annotations

from whichloop.models.receipts import call_digest
from whichloop.protocol.receipts import sightings

from .scene import FinishedRun, request_text


def asked_again(finished: FinishedRun) -> str:
    """Return which request lacks a result that the loop had been given, so that the model decided on the call again.

    Empty if there is none, as in a run whose requests show what was found out.
    """
    shown = [sightings(request_text(request)).keys() for request in finished.log.requests]
    for decision in finished.log.decisions:
        for call in decision.calls:
            digest = call_digest(call.name, call.arguments)
            if digest in decision.given:
                before, now = shown[: decision.request - 1], shown[decision.request - 1]
                return f"request {decision.request} {_lack(call.name, any(digest in seen for seen in before), digest in now)}"
    return ""


def _lack(tool: str, was_shown: bool, is_shown: bool) -> str:
    """Return what a request does not show of the result of a tool, in words."""
    if is_shown:
        return f"shows the result of {tool} without what the task needs of it, so the model asked for it again"
    return f"{'no longer shows' if was_shown else 'does not show'} the result of {tool}, so the model asked for it again"
