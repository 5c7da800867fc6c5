"""Which calls wait for a person: names of tools, or a rule for each name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from whichloop.protocol.threads import is_async_function

ApprovalRule = Callable[[Mapping[str, Any]], bool]
"""Says of a call's arguments, a copy of the very values that the tool's function gets, whether a person has to approve the call.

Only False lets it run at once.
"""


NeedsApproval = Sequence[str] | Set[str] | Mapping[str, ApprovalRule]
"""Names of tools, or a rule for each. (Not a collection of names: a dictionary is one, whatever its rules return.)"""


def rules_of(needs_approval: NeedsApproval) -> Mapping[str, ApprovalRule | None]:
    """Return the rule for each name, None where every call waits. Raises TypeError."""
    tools: Any = needs_approval
    if isinstance(tools, str):
        raise TypeError(f"needs_approval: give a list of tools' names, such as [{tools!r}], not a text")
    if not isinstance(tools, Iterable):
        raise TypeError(
            "needs_approval: give a list of tools' names or a mapping with a rule for each, such as "
            f"{{'refund': lambda arguments: True}}, not {type(tools).__name__}"
        )
    rules = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
    for name, rule in rules.items():
        if not isinstance(name, str):
            raise TypeError(f"needs_approval: a tool's name must be a text, not {name!r}")
        if isinstance(tools, Mapping):
            _check_rule(name, rule)
    return rules


def refusals_of(refusals: Collection[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return the exceptions by which a tool says that it has not acted. Raises TypeError for what is no list of such classes."""
    types: Any = refusals
    if isinstance(types, type) or not isinstance(types, Iterable):
        named = types.__name__ if isinstance(types, type) else repr(types)
        raise TypeError(f"refusals: give a list of exception classes, such as [NoSuchOrder], not {named}")
    classes = tuple(types)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"refusals: give classes of exceptions, not {one!r}")
        if one is Exception:
            raise TypeError(
                "refusals: Exception is every error, so that no call that may have acted would wait; give exceptions that the tool "
                "raises only before it acts, such as [NoSuchOrder]"
            )
    return classes


def _check_rule(name: str, rule: Any) -> None:
    """Raise TypeError for a rule that is no plain function of a call's arguments as one mapping."""
    wrong = "" if callable(rule) else repr(rule)
    if is_async_function(rule):
        wrong = "an async function"
    elif not wrong and not _takes_one(rule):
        wrong = f"one that takes {inspect.signature(rule)}"
    if wrong:
        raise TypeError(f"needs_approval: the rule of {name!r} must be a plain function of the call's arguments, not {wrong}")


def _takes_one(rule: Callable[..., Any]) -> bool:
    """Return whether a function can be called with one argument; one whose signature cannot be read is believed to."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind({})
    except TypeError:
        return False
    return True
