"""What OpenAI's two APIs share: fields of requests, errors and models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from whichloop.protocol import Message, ToolSpec
from whichloop.protocol.json_text import Json

from .base import BadRequest, ErrorAnswer, Fields, ObjectSchema, Wire, WireFailure, checked_choice, checked_tools

NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
MAX_TOOLS = 128
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


class OpenAIBody(Fields):
    """A request's body."""

    model: str = Field(min_length=1)
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    stream: bool | None = None
    metadata: dict[str, str] | None = None


class Function(Fields):
    """A function that a request offers."""

    name: str
    description: str | None = None
    parameters: ObjectSchema | None = None


def tools_of(functions: Sequence[Function]) -> tuple[ToolSpec, ...]:
    """Return the tools of a request. Raises BadRequest."""
    tools = [ToolSpec(each.name, each.description or "", each.parameters or {}) for each in functions]
    return checked_tools(tools, MAX_TOOLS, NAME)


class Choice(Fields):
    """A `tool_choice`: a text is its type, and chat completions put the rest into a field that has the name of the type."""

    type: str
    name: str = ""
    mode: Literal["auto", "required"] = "auto"
    tools: Sequence[Self] = ()

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, choice: Any) -> Any:
        if not isinstance(choice, dict):
            return {"type": choice}
        kind = choice.get("type")
        return {**choice[kind], "type": kind} if isinstance(kind, str) and isinstance(choice.get(kind), dict) else choice

    def chosen(self, tools: Sequence[ToolSpec]) -> str | None:
        """Return how the model is to call, as a Request has it. Raises BadRequest for a tool that is not offered.

        Of several allowed tools none is preferred, and that others are not called is not enforced.
        """
        if self.type == "allowed_tools":
            allowed = [checked_choice(each.name, tools) for each in self.tools if each.type == "function"]
            return allowed[0] if self.mode == "required" and len(allowed) == 1 else self.mode if allowed else "auto"
        return checked_choice(self.name if self.type == "function" else self.type, tools)


class RefusalPart(Fields):
    """A part of a message in which the model refuses."""

    type: Literal["refusal"]
    text: str = Field(alias="refusal")


class PlainFormat(Fields):
    """A format of replies without a schema."""

    type: Literal["text", "json_object"]


class NamedSchema(Fields):
    """A schema of replies."""

    name: Name
    schema_: dict[str, Any] | None = Field(None, alias="schema")


def reply_schema(given: PlainFormat | NamedSchema | None, messages: Sequence[Message], where: str) -> Mapping[str, Json] | None:
    """Return the schema that a reply follows. Raises BadRequest for JSON that no message asks for. `where`: the field's name."""
    if isinstance(given, NamedSchema):
        return given.schema_ or {}
    if given is None or given.type == "text":
        return None
    if not any("json" in message.content.lower() for message in messages):
        raise BadRequest(f"{where}: json_object needs the word 'json' in a message", where)
    return {"type": "object"}


_ERRORS: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "requests"}


class OpenAIWire(Wire):
    """OpenAI's errors and models."""

    def failure(self, failure: WireFailure) -> ErrorAnswer:
        kind = "server_error" if failure.status >= 500 else _ERRORS.get(failure.status, "invalid_request_error")
        error = {"message": failure.message, "type": kind, "param": failure.param, "code": failure.code}
        headers = {} if failure.wait_s is None else {"Retry-After": f"{failure.wait_s:g}"}
        return ErrorAnswer(failure.status, {"error": error}, headers)

    def models(self, names: Sequence[str], created: int) -> Any:
        return {"object": "list", "data": [self.model(name, created) for name in names]}

    def model(self, name: str, created: int) -> Any:
        return {"id": name, "object": "model", "created": created, "owned_by": "whichloop"}
