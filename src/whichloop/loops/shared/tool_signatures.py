"""What the functions behind tools take, by `inspect`: for the prompt, and for a check before a call. Standard library only.

Rows such as S4-9 are those of docs/conformance.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters of one function."""

    text: str
    """The signature as the model sees it."""
    by_name: Mapping[str, bool] | None = None
    """Parameters that an argument can name, in order, and whether each is required; None if the function has no signature."""
    bound: Mapping[str, bool] | None = None
    """The same for a caller that puts arguments in their places: positional-only ones and `*args` have names too."""
    is_open: bool = False
    """The function takes arguments of any name."""


_SIGNATURES: WeakKeyDictionary[Callable[..., Any], ToolSignature] = WeakKeyDictionary()


def signature_of(func: Callable[..., Any]) -> ToolSignature:
    """Return a function's signature; it is read once, and forgotten with the function."""
    try:
        return _SIGNATURES[func]
    except KeyError:
        signature = _SIGNATURES[func] = _read_signature(func)
    except TypeError:  # a callable object may be unhashable, or take no weak reference
        signature = _read_signature(func)
    return signature


def _read_signature(func: Callable[..., Any]) -> ToolSignature:
    try:
        signature = inspect.signature(func)
    except (ValueError, TypeError):  # some builtins have none
        return ToolSignature("(...)")
    parameters = signature.parameters.values()
    bound = {p.name: p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters if p.kind is not p.VAR_KEYWORD}
    by_place = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    return ToolSignature(
        re.sub(r" at 0x[0-9a-f]+", "", str(signature)).replace("'", ""),
        {name: is_required for name, is_required in bound.items() if name not in by_place},
        bound,
        is_open=len(bound) < len(parameters),
    )


def validate_tool_arguments(func: Callable[..., Any], args: Mapping[str, Any], name: str, *, bound: bool = False) -> str | None:
    """Check the names of the arguments against the signature; return what is wrong, or None (rows S4-9, B4-3).

    `bound`: the caller puts arguments in their places, as a typed tool of a Toolbox does.
    """
    signature = signature_of(func)
    names = signature.bound if bound else signature.by_name
    if names is None:
        return None
    if not signature.is_open:
        for argument in args:
            if argument not in names:
                return f"Error: Tool '{name}' does not accept argument '{argument}'. Valid parameters: {', '.join(names)}"
    for parameter, is_required in names.items():
        if is_required and parameter not in args:
            return f"Error: Tool '{name}' missing required argument '{parameter}'"
    return None
