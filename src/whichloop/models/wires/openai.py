"""What OpenAI's two APIs share: fields of requests, errors and models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from whichloop.protocol import Message, ToolSpec
from whichloop.protocol.json_text import Json

from .base import BadRequest, Fields, ObjectSchema, Refusal, Wire, checked_choice, checked_tools

NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
MAX_TOOLS, MAX_METADATA = 128, 16
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


class OpenAIBody(Fields):
    """A request's body."""

    model: str = Field(min_length=1)
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    stream: bool | None = None
    metadata: dict[str, str] | None = Field(None, max_length=MAX_METADATA)


class Function(Fields):
    """A function that a request offers."""

    name: str
    description: str | None = None
    parameters: ObjectSchema | None = None


def tools_of(functions: Sequence[Function]) -> tuple[ToolSpec, ...]:
    """Return the tools of a request. Raises BadRequest."""
    tools = [ToolSpec(each.name, each.description or "", each.parameters or {}) for each in functions]
    return checked_tools(tools, MAX_TOOLS, NAME)


def _flat(value: Any) -> Any:
    """Return an object with what stands in the field that has the name of its type, where chat completions put it."""
    kind = value.get("type") if isinstance(value, dict) else None
    return {**value[kind], "type": kind} if isinstance(kind, str) and isinstance(value.get(kind), dict) else value


class ToolChoice(Fields):
    """A `tool_choice`; a text is its type."""

    type: str
    name: str = ""
    mode: Literal["auto", "required"] = "auto"
    tools: Sequence[Self] = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, choice: Any) -> Any:
        return _flat(choice) if isinstance(choice, dict) else {"type": choice}

    def chosen(self, tools: Sequence[ToolSpec]) -> str | None:
        """Return how the model is to call, as a Request has it. Raises BadRequest for a tool that is not offered.

        Of several allowed tools none is preferred, and that others are not called is not enforced.
        """
        if self.type == "allowed_tools":
            allowed = [checked_choice(each.name, tools) for each in self.tools if each.type == "function"]
            return allowed[0] if self.mode == "required" and len(allowed) == 1 else self.mode if allowed else "auto"
        return checked_choice(self.name if self.type == "function" else self.type, tools)


class ReplyFormat(Fields):
    """How a reply is to be written."""

    type: Literal["text", "json_object", "json_schema"]
    name: Name | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return _flat(given)

    def schema_for(self, messages: Sequence[Message], where: str) -> Mapping[str, Json] | None:
        """Return the schema of the reply. Raises BadRequest for one without a name, and for JSON that no message asks for."""
        if self.type == "json_schema" and self.name is None:
            raise BadRequest(f"{where}: json_schema needs a name", where)
        if self.type == "json_object" and not any("json" in message.content.lower() for message in messages):
            raise BadRequest(f"{where}: json_object needs the word 'json' in a message", where)
        if self.type == "json_schema":
            return self.schema_ or {}
        return {"type": "object"} if self.type == "json_object" else None


_ERRORS: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "requests"}


class OpenAIWire(Wire):
    """OpenAI's errors and models."""

    def failure(self, failure: Refusal) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        kind = "server_error" if failure.status >= 500 else _ERRORS.get(failure.status, "invalid_request_error")
        error = {"message": str(failure), "type": kind, "param": failure.param, "code": failure.code}
        headers = {} if failure.wait_s is None else {"Retry-After": f"{failure.wait_s:g}"}
        return failure.status, {"error": error}, headers

    def models(self, names: Sequence[str], created: int) -> Any:
        listed = [{"id": name, "object": "model", "created": created, "owned_by": "whichloop"} for name in names]
        return {"object": "list", "data": listed}
