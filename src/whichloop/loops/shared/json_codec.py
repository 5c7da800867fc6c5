"""A wire format of one JSON object, made of its schema and two functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from whichloop.protocol import Inexpressible, Move, Reply, Role, WireError
from whichloop.protocol.wire import json_text, read_back, read_object, to_json

Data = dict[str, Any]
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def object_of(**properties: Any) -> Data:
    """Return the JSON schema of an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


@dataclass(frozen=True, slots=True)
class JsonCodec:
    """One JSON object. Cannot say anything but moves of one type, and of those nothing that `write` leaves out."""

    name: str
    role: Role
    move_type: type[Move]
    schema: Data
    form: str
    """What the system text says of the format."""
    read: Callable[[Data], Move]
    """Raises WireError."""
    write: Callable[[Any], Data]
    takes_null: bool = False
    """Whether null is an answer; otherwise it means that none is given."""
    asks_about_task: bool = False
    """Of a conversation its requests show what the user said, and no result or reply."""
    max_calls: ClassVar[int] = 0

    def render(self, move: Move) -> Reply:
        if not isinstance(move, self.move_type):
            raise Inexpressible(f"the {type(move).__name__} is no move of this role")
        return read_back(self, move, lambda: Reply(to_json(self.write(move))))

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return json_text(text, "answer") if self.role is Role.ANSWER else ""

    def parse(self, reply: Reply) -> Any:
        return self.read(read_object(reply.text))


def read_text(data: Data, key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise WireError(f'"{key}" must be text')
    return value


def read_flag(data: Data, key: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise WireError(f'"{key}" must be true or false')
    return value


def read_texts(data: Data, key: str) -> tuple[str, ...]:
    """Read a list of texts; a single text is a list of one, and a missing list is empty."""
    value = data.get(key)
    items = [value] if isinstance(value, str) else value if value is not None else []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise WireError(f'"{key}" must be a list of texts')
    return tuple(items)
