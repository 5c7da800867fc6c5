"""Whether the calls that were made are right as BFCL's published checker sees it (`bfcl_eval/eval_checker/ast_eval`, version 4).

What it does, its oddities included, because a published score contains them: types are Python's, looked at one level deep; a value
whose type is that of the first allowed value passes as "a variable"; an int does for a float but not inside of a list; texts are
compared without letter case and punctuation, an enum is not looked at; each wanted call takes the first call made that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .functions import loose_text

_PYTHON: dict[str, type] = {
    **{"integer": int, "float": float, "number": float, "boolean": bool, "dict": dict, "object": dict},
    **dict.fromkeys(("array", "list", "tuple"), list),
}
"""Other types are str."""
_LISTS = {"array", "tuple"}
"""Types whose items are looked at."""


def officially_right(wanted: Any, calls_made: Sequence[Mapping[str, Any]], functions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the calls made are those wanted.

    `wanted`: `[{function: {parameter: [allowed value, …]}}, …]`. `calls_made`: `[{"function", "arguments"}, …]`. `functions`: the
    row's, as published. The order of calls does not matter; each wanted call takes the first one made that fits and is not yet
    taken.
    """
    if not isinstance(wanted, list) or len(wanted) != len(calls_made):
        return False
    described = {function["name"]: function["parameters"] for function in functions}
    unmatched = list(calls_made)
    for want in wanted:
        ((name, allowed),) = want.items()
        fitting = next((call for call in unmatched if call["function"] == name and _fits(call, allowed, described.get(name))), None)
        if fitting is None:
            return False
        unmatched.remove(fitting)
    return True


def _fits(call: Mapping[str, Any], allowed: Mapping[str, Any], described: Mapping[str, Any] | None) -> bool:
    arguments = call["arguments"]
    if described is None or not isinstance(arguments, Mapping):
        return False
    parameters = described.get("properties") or {}
    if not set(described.get("required") or ()) <= arguments.keys() <= parameters.keys() & allowed.keys():
        return False
    if not all(_is_allowed(value, allowed[name], parameters[name]) for name, value in arguments.items()):
        return False
    return all(name in arguments or "" in options for name, options in allowed.items())


def _is_allowed(value: Any, options: Sequence[Any], parameter: Mapping[str, Any]) -> bool:
    kind, items = parameter.get("type", "any"), parameter.get("items") or {}
    outer = _PYTHON.get(kind, str)
    inner = _PYTHON.get(items.get("type", "any"), str) if kind in _LISTS and items else None
    if kind == "float" and type(value) is int:
        value = float(value)
    if not _has_type(value, options, outer, inner):
        return False
    if _first_type(options) in (None, outer):
        if outer is dict:
            return any(_is_object(value, option) for option in options)
        if outer is list and inner is dict:
            lists = (option for option in options if isinstance(option, list) and len(option) == len(value))
            return any(all(map(_is_object, value, option)) for option in lists)
        if outer is str:
            return loose_text(value) in [loose_text(option) for option in options if isinstance(option, str)]
        if isinstance(value, list):
            return _loose_items(value) in [_loose_items(option) for option in options if isinstance(option, list | str)]
    return value in options


def _first_type(options: Sequence[Any]) -> type | None:
    return next((type(option) for option in options if option != ""), None)


def _has_type(value: Any, options: Any, outer: type | None, inner: type | None) -> bool:
    if type(value) is not outer:
        return type(value) is _first_type(options)
    if inner is None or not isinstance(value, list):
        return True
    return any(not isinstance(option, list) or all(_has_type(item, option, inner, None) for item in value) for option in options)


def _loose_items(value: Any) -> list[Any]:
    return [loose_text(item) for item in value]


def _is_object(value: Any, option: Any) -> bool:
    """Whether an object has the fields of an allowed one, each with an allowed value."""
    if not isinstance(value, Mapping) or not isinstance(option, Mapping) or not value.keys() <= option.keys():
        return False
    if not all(loose_text(item) in _loose_items(_several(option[name])) for name, item in value.items()):
        return False
    return all(name in value or "" in _several(options) for name, options in option.items())


def _several(options: Any) -> Any:
    """Return the allowed values of an object's field, of which a file may give a single one."""
    return options if isinstance(options, list | str) else [options]
