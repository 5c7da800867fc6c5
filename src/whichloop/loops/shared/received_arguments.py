"""The arguments of a call as its tool gets them, and as a person, the events and a checkpoint are shown them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from whichloop.protocol import ToolArgumentError, Toolbox, ToolCall
from whichloop.protocol.values import argument_forms, argument_json, cap, legible, own_copy, render_value


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: true is not 1, as it is in Python, and 5 is 5.0, as a browser writes that.

    A value of a type that JSON lacks is the same as no other.
    """
    pairs = [(one, other)]  # no recursion: a model may nest as deep as JSON is read
    while pairs:
        left, right = pairs.pop()
        kind = _json_type(left)
        if kind is None or kind is not _json_type(right):
            return False
        if kind is dict:
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items()]
        elif kind is list:
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def _json_type(value: Any) -> type | None:
    """Return which of JSON's types a value has, `float` for any number; None if it has none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return next((kind for kind in (str, bool, dict, list, type(None)) if isinstance(value, kind)), None)


def problem_of(call: ToolCall, tools: Toolbox) -> tuple[str, str] | None:
    """Return why a call cannot be made, the error's type and its text; None if it can."""
    tool = tools.get(call.name)
    if tool is None:
        return "UnknownTool", f"there is no tool {call.name!r}"
    try:
        if tool.arguments is not None:
            tool.arguments.check(call.arguments)
    except ToolArgumentError as error:
        return "InvalidArguments", str(error)
    return None


def shown_arguments(call: ToolCall, tools: Toolbox) -> dict[str, Any]:
    """Return the JSON form of what the tool's function gets, as a person and the events are shown it."""
    try:
        received: Mapping[str, Any] = received_values(call, tools)
    except Exception:  # of the tool's types, or a call that lacks an argument: the tool gets what was written
        received = call.arguments
    return {name: _form(call, tools, name, value) for name, value in received.items()}


def _form(call: ToolCall, tools: Toolbox, name: str, value: Any) -> Any:
    """Return the JSON form of an argument: by the aliases of pydantic's models where the tool reads only these."""
    try:
        plain, by_alias = argument_forms(value)
    except Exception:  # a circular value, a key that JSON lacks, an error in a user's method
        return render_value(value)
    if plain is by_alias or same_json(plain, by_alias) or _converts_back(call, tools, name, value, plain):
        return plain
    return by_alias if _converts_back(call, tools, name, value, by_alias) else plain


def received_values(call: ToolCall, tools: Toolbox) -> dict[str, Any]:
    """Return the arguments as the tool's function gets them: converted to its types, with its defaults.

    Raises what a value of the model's or a user's type raises that cannot be read.
    """
    tool = tools.get(call.name)
    copies = {name: own_copy(value) for name, value in dict(call.arguments).items()}
    if tool is None or tool.arguments is None:
        return copies
    try:
        args, kwargs = tool.arguments.bind(copies)
    except ToolArgumentError:
        args, kwargs = tool.arguments.bind_unchecked(copies)
    signature = inspect.signature(tool.function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    received: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        received.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return received


def unlike_shown(call: ToolCall, tools: Toolbox) -> str:
    """Return which arguments their JSON form does not say whole, each with what the tool gets; empty if all are said.

    Such are a field that is left out of the JSON, a serializer of the tool's own type, and a validator that changes a value again
    when it gets its own result. Defaults are not looked at: the model has not written them.
    """
    try:
        received = received_values(call, tools)
    except Exception:  # it is shown as it was written
        return ""
    problems = []
    for name in call.arguments:
        if name not in received:
            continue
        value = received[name]
        if not _converts_back(call, tools, name, value, _form(call, tools, name, value)):
            gets = cap(legible(_repr(value)), 300)
            problems.append(f"the JSON form of {name} does not convert back to what the tool gets, {gets}")
    return "; ".join(problems)


def is_said_whole(call: ToolCall, tools: Toolbox) -> bool:
    """Return whether the tool gets the very arguments that a call states as JSON."""
    return same_json(shown_arguments(call, tools), call.arguments) and not unlike_shown(call, tools)


def made_anew(call: ToolCall, tools: Toolbox) -> list[str]:
    """Return the names of the arguments of which the tool's types make another value each time, such as an id or the time."""
    return different_arguments(shown_arguments(call, tools), shown_arguments(call, tools))


def different_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that only one of two calls has, or that are not the same JSON in both."""
    return sorted(name for name in {*one, *other} if not same_json(one.get(name, ...), other.get(name, ...)))


def _converts_back(call: ToolCall, tools: Toolbox, name: str, value: Any, form: Any) -> bool:
    """Return whether the tool gets an equal argument of a JSON form of one; true is not 1, although they are equal in Python."""
    again = replace(call, arguments={**call.arguments, name: form})
    try:
        gets = received_values(again, tools)[name]
        return bool(gets == value) and same_json(argument_json(gets), argument_json(value))
    except Exception:  # of the tool's types
        return False


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # of a user's class
        return f"<{type(value).__name__}>"
