"""The defaults of a loop of the user's own, as a baseline keeps them: by them a gate says which one was edited."""

from __future__ import annotations

import ast

from whichloop.protocol.digest import digest
from whichloop.protocol.names import value_text
from whichloop.protocol.redact import redact
from whichloop.runs.manifest import ArmEntry

MAX_VALUE = 40
"""Characters of a value that stands as it is; of a longer one there are its beginning and a digest."""
BEGINNING, DIGEST_CHARS = 24, 6


def defaults_of(entry: ArmEntry) -> dict[str, str]:
    """Return field → value, of the fields of an own loop that nobody typed and that no step limit set, secrets taken out.

    Empty for a loop of ours, whose defaults can be looked up, and for one whose configuration is no list of fields.
    """
    if ":" not in entry.loop:
        return {}
    try:
        call = ast.parse(entry.configuration, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    fields = call.keywords if isinstance(call, ast.Call) and not call.args else []
    set_otherwise = entry.options.keys() | entry.own_limits.keys()
    return {
        field.arg: _text(field.value)
        for field in fields
        if field.arg is not None and not field.arg.startswith("_") and field.arg not in set_otherwise
    }


def _text(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        value = ast.unparse(node)
    text = redact(value_text(value))
    return text if len(text) <= MAX_VALUE else f"{text[:BEGINNING]}… ({digest(text)[:DIGEST_CHARS]})"
