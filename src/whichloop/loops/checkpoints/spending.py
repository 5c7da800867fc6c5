"""What a run has spent by its checkpoint, over all of its parts: the budget of a `Resumable` is looked at by this."""

from __future__ import annotations

from collections.abc import Iterable

from whichloop.protocol import Request
from whichloop.protocol.budget import Expenses
from whichloop.protocol.digest import digest
from whichloop.protocol.tokens import estimate_input, estimate_usage

from .checkpoint_entries import Entry, reply_of


def asked_entry(request: Request) -> Entry:
    """Return the entry of a request that is about to be made: a process that dies has paid for a reply that nobody kept."""
    return {
        "kind": "asked",
        "scope": request.scope,
        "request": digest(request.as_dict()),
        "input_tokens": estimate_input(request),
    }


def spent_by(entries: Iterable[Entry]) -> Expenses:
    """Return what the requests of a run took.

    A reply without usage is estimated. A request that was cut off has no reply: it counts as a call with its estimated input. One
    that failed is a call without tokens.
    """
    calls, tokens, dollars, unpriced = 0, 0, 0.0, 0
    tokens_by_scope: dict[str, int] = {}
    for entry in entries:
        if entry["kind"] == "asked":
            calls += 1
            # A request before this one that was cut off is counted here: each scope has at most one in flight.
            tokens += tokens_by_scope.get(entry["scope"], 0)
            tokens_by_scope[entry["scope"]] = entry["input_tokens"]
        elif entry["kind"] in ("reply", "failure"):
            calls += entry["scope"] not in tokens_by_scope  # of a part of the run that had no budget
            input_tokens = tokens_by_scope.pop(entry["scope"], 0)
            if entry["kind"] == "reply":
                reply = reply_of(entry["reply"])
                usage = reply.usage or estimate_usage(input_tokens, reply)
                tokens += usage.total_tokens
                dollars += usage.cost_usd or 0.0
                unpriced += usage.cost_usd is None
    return Expenses(calls, tokens + sum(tokens_by_scope.values()), dollars, unpriced)
