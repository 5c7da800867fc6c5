"""Whether the calls that were made are those that were wanted, by the rule that a paper describes and a real function would follow.

Patil et al., "The Berkeley Function Calling Leaderboard" (ICML 2025), the AST check of its single-turn categories: for each
parameter there is a set of allowed values, and `""` in the set means that the parameter may be left out. Pure functions. `official`
does what the published checker does, which is stricter in some places and laxer in others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NO_MATTER = str.maketrans({**dict.fromkeys(" ,./-_*^"), "'": '"'})
"""Characters that do not count in texts: "April 1, 2024" is "april 1 2024"."""


def same_calls(wanted: Any, state: Any) -> bool:
    """Whether the calls made and those wanted can be paired off, in any order, with none left over.

    `wanted`: `[{function: {parameter: [allowed value, …]}}, …]`; empty: no call is right, and none may have been tried.
    `state`: `{"calls": [{"function", "arguments"}, …], "refused": [the same]}`, an environment's end state, or None. A call that
    was refused for its arguments was not made: a model that sees the refusal and does better is right.
    """
    calls_made = listed_calls(state, "calls")
    if not isinstance(wanted, list) or len(wanted) != len(calls_made):
        return False
    if not wanted:
        return not listed_calls(state, "refused")
    fits = [[place for place, call in enumerate(calls_made) if _is_call(call, want)] for want in wanted]
    return _paired(fits)


def listed_calls(state: Any, key: str) -> list[Any]:
    """Return the calls that an end state lists as `calls` or as `refused`; none where it lists none."""
    calls = state.get(key) if isinstance(state, Mapping) else None
    return calls if isinstance(calls, list) else []


def _paired(fits: Sequence[Sequence[int]]) -> bool:
    """Whether each wanted call gets a call of its own; `fits`: which made calls would do (augmenting paths, Kuhn 1955)."""
    holder: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for call_place in fits[wanted]:
            if call_place not in tried:
                tried.add(call_place)
                if call_place not in holder or place(holder[call_place], tried):
                    holder[call_place] = wanted
                    return True
        return False

    return all(place(wanted, set()) for wanted in range(len(fits)))


def _is_call(call: Any, want: Any) -> bool:
    if not isinstance(call, Mapping) or not isinstance(want, Mapping) or len(want) != 1:
        return False
    ((function, parameters),) = want.items()
    return call.get("function") == function and _fits_all(call.get("arguments"), parameters)


def _fits_all(arguments: Any, wanted: Any) -> bool:
    """Whether each value given is allowed, and what is not given may be left out."""
    if not isinstance(arguments, Mapping) or not isinstance(wanted, Mapping) or not arguments.keys() <= wanted.keys():
        return False
    return all(_allowed(arguments[name], options) if name in arguments else _optional(options) for name, options in wanted.items())


def _optional(options: Any) -> bool:
    return isinstance(options, list) and "" in options


def _allowed(value: Any, options: Any) -> bool:
    """Whether a value is one of those allowed; inside of an object a single value may stand for a set of one."""
    return any(_fits(value, option) for option in (options if isinstance(options, list) else [options]))


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is the one wanted: an int does for the equal float, texts are compared without case and punctuation, lists in
    their order, and the fields of an object each have a set of allowed values again.
    """
    if isinstance(wanted, Mapping):
        return _fits_all(value, wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    if isinstance(wanted, str):
        return isinstance(value, str) and loose_text(value) == loose_text(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, int | float):
        return isinstance(value, int | float) and value == wanted
    return value is wanted  # null


def loose_text(value: Any) -> Any:
    """Return a text without letter case, spaces and the characters `,./-_*^`, with `"` for `'`; any other value as it is."""
    return value.translate(_NO_MATTER).lower() if isinstance(value, str) else value
