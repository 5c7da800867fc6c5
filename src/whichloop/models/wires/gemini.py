"""Google's Gemini API as JSON, the server's side: reads a request, and writes a reply whole or in chunks, a count or an error.

It follows the API reference, "Generating content" (ai.google.dev/api/generate-content). Names of fields may be in camel or in snake
case. Arguments of calls are objects there: a call whose arguments are none cannot be written, and the reply then ends for the
reason MALFORMED_FUNCTION_CALL, as Gemini's does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, ToolSpec, Usage, WireError
from whichloop.protocol.wire import read_call, to_json

from . import base
from .base import BadRequest, Fields, Path, Refusal, Stamp, Wire, WireRequest

MAX_FUNCTIONS = 512
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_UNUSED = frozenset({"model", "safetySettings", "safety_settings", "cachedContent", "cached_content", "store", "serviceTier"})
_VERBS: Mapping[str, base.Page] = {"generateContent": "reply", "streamGenerateContent": "reply", "countTokens": "count"}


# --- the request ---


class _Camel(Fields):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


def _listed(value: Any) -> Any:
    """One item may stand for a list of one (protobuf.dev/programming-guides/json)."""
    return [value] if isinstance(value, dict) else value


class _Call(_Camel):
    name: str = Field(min_length=1)
    id: str = ""
    args: dict[str, Any] | None = None


class _Answer(_Camel):
    name: str = Field(min_length=1)
    id: str = ""
    response: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """What clients wrap into an object, because the API takes nothing else; any other object is shown as it is."""
        response = {key: value for key, value in (self.response or {}).items() if (key, value) != ("name", self.name)}
        key = next(iter(response), "")
        value = response[key] if len(response) == 1 and key in ("result", "output", "content") else self.response
        return value if isinstance(value, str) else to_json(value or {})


class _Part(_Camel):
    """A part; what holds anything but text, a call or an answer is refused."""

    text: str | None = None
    function_call: _Call | None = None
    function_response: _Answer | None = None
    thought: bool | None = None
    thought_signature: str = ""


class _Content(_Camel):
    role: Literal["user", "model", ""] | None = None
    parts: Annotated[base.Items[_Part], BeforeValidator(_listed), Field(min_length=1)]

    @property
    def text(self) -> str:
        return "".join(part.text or "" for part in self.parts if not part.thought)


_Texts = Annotated[list[str] | None, BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
_Count = Annotated[int | None, BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value)]
"""Protocol buffers write whole numbers of 64 bits as text."""


class _Schema(_Camel):
    """A schema in Gemini's own form, a part of OpenAPI's: JSON Schema stands in other fields."""

    model_config = ConfigDict(extra="forbid")

    type: Annotated[
        Literal["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"] | None,
        BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
    ] = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    nullable: bool | None = None
    enum: _Texts = None
    max_items: _Count = None
    min_items: _Count = None
    properties: dict[str, _Schema] | None = None
    required: _Texts = None
    min_properties: _Count = None
    max_properties: _Count = None
    min_length: _Count = None
    max_length: _Count = None
    pattern: str | None = None
    example: Any = None
    any_of: base.Items[_Schema] | None = None
    property_ordering: _Texts = None
    default: Any = None
    items: _Schema | None = None
    minimum: float | None = None
    maximum: float | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type is None and not self.any_of:
            raise ValueError("type is missing")
        if self.type == "ARRAY" and self.items is None:
            raise ValueError("items is missing")
        return self

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON Schema."""
        others = {"type", "nullable", "example", "property_ordering", "properties", "items", "any_of"}
        schema = self.model_dump(by_alias=True, exclude_none=True, exclude=others)
        if self.type is not None:
            schema["type"] = [self.type.lower(), "null"] if self.nullable else self.type.lower()
        if self.type == "OBJECT":
            schema["properties"] = {name: inner.json_schema() for name, inner in (self.properties or {}).items()}
        if self.items is not None:
            schema["items"] = self.items.json_schema()
        if self.any_of:
            schema["anyOf"] = [inner.json_schema() for inner in self.any_of]
        return schema


class _Function(_Camel):
    name: str
    description: str | None = None
    parameters: _Schema | None = None
    parameters_json_schema: dict[str, Any] | None = None


class _Tool(_Camel):
    """Functions; tools of Google's own are passed over."""

    function_declarations: Annotated[base.Items[_Function], BeforeValidator(_listed)] = Field(default_factory=list)


class _Calling(_Camel):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "VALIDATED", "ANY", "NONE"] = "AUTO"
    allowed_function_names: base.Items[str] | None = None


class _ToolConfig(_Camel):
    function_calling_config: _Calling | None = None


_Int = Annotated[
    int | None, BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
]


class _Config(_Camel):
    candidate_count: _Int = Field(None, ge=1, le=1)
    stop_sequences: base.Items[str] | None = Field(None, max_length=5)
    max_output_tokens: _Int = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    seed: _Int = None
    response_mime_type: Literal["text/plain", "application/json", ""] | None = None
    response_schema: _Schema | None = None
    response_json_schema: dict[str, Any] | None = None


class _Body(_Camel):
    contents: Annotated[base.Items[_Content], BeforeValidator(_listed), Field(min_length=1)]
    system_instruction: _Content | None = None
    tools: Annotated[base.Items[_Tool] | None, BeforeValidator(_listed)] = None
    tool_config: _ToolConfig | None = None
    generation_config: _Config = Field(default_factory=_Config)
    labels: dict[str, Any] | None = None


def read_request(body: Any, model: str, verb: str, *, is_sse: bool) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest. `is_sse`: a stream as server-sent events."""
    if verb == "countTokens" and isinstance(body, dict):  # the whole request may stand in one field
        body = body.get("generateContentRequest", body.get("generate_content_request", body))
    data = base.read_body(_Body, body, _UNUSED)
    messages = _conversation(data.contents)
    base.check_history(messages, "contents")
    if data.system_instruction is not None and (system := data.system_instruction.text):
        messages.insert(0, Message("system", system))
    declared = [function for tool in data.tools or () for function in tool.function_declarations]
    tools = base.checked_tools([_spec(function) for function in declared], MAX_FUNCTIONS, _NAME)
    config, metadata = data.generation_config, data.labels or {}
    schema = _reply_schema(config)
    if tools and schema is not None:
        where = "generationConfig.responseMimeType"
        raise BadRequest(f"{where}: functions and a reply in JSON exclude each other", where)
    request = Request(
        tuple(messages),
        tools,
        _choice(data.tool_config.function_calling_config if data.tool_config else None, tools),
        schema,
        Sampling(config.temperature, config.max_output_tokens, config.top_p, config.seed, tuple(config.stop_sequences or ())),
        **base.own_fields(metadata, len(messages)),
    )
    return WireRequest(request, model, verb == "streamGenerateContent", metadata=metadata, listed=not is_sse)


def _conversation(contents: Sequence[_Content]) -> list[Message]:
    messages: list[Message] = []
    waiting: list[NativeCall] = []
    numbers = count()
    for place, content in enumerate(contents):
        where, calls, answers = f"contents.{place}", list[NativeCall](), list[_Answer]()
        for part in content.parts:
            if part.text is None and part.function_call is None and part.function_response is None:
                raise BadRequest(f"{where}.parts: this model reads text, functionCall and functionResponse only", where)
            if part.function_call is not None:
                said, number = part.function_call, next(numbers)
                call_id = said.id or _signed_id(part.thought_signature) or f"call_{number}"
                calls.append(NativeCall(call_id, said.name, base.written_arguments(to_json(said.args or {}))))
            if part.function_response is not None:
                answers.append(part.function_response)
        if calls and (answers or not messages or messages[-1].role == "assistant" or len(calls) > MAX_FUNCTIONS):
            raise BadRequest(f"{where}: up to {MAX_FUNCTIONS} calls follow the user or answers, and stand beside none", where)
        messages += _results(answers, waiting, where)
        if calls or content.role == "model":
            messages.append(Message("assistant", content.text, tuple(calls)))
        elif content.text or not answers:
            messages.append(Message("user", content.text))
        waiting = calls
    return messages


def _results(answers: Sequence[_Answer], calls: Sequence[NativeCall], where: str) -> Iterator[Message]:
    """Yield each answer as the result of the first call of its id, else of its function's name, else at all. Raises BadRequest."""
    left = list(calls)
    for answer in answers:
        if not left:
            raise BadRequest(f"{where}: the answer of '{answer.name[:64]}' follows no call", where)
        call = max(left, key=lambda call: (call.id == answer.id, call.name == answer.name))
        left.remove(call)
        yield Message("tool", answer.text, call_id=call.id)


def _spec(function: _Function) -> ToolSpec:
    own = function.parameters.json_schema() if function.parameters else function.parameters_json_schema
    return ToolSpec(function.name, function.description or "", own or {})


def _choice(calling: _Calling | None, tools: Sequence[ToolSpec]) -> str | None:
    """Return how the model is to call. Of several allowed functions any may be called, and others too."""
    if calling is None:
        return None
    names = calling.allowed_function_names or []
    for name in names:
        base.checked_choice(name, tools, "toolConfig.functionCallingConfig")
    mode = {"ANY": "required", "NONE": "none"}.get(calling.mode, "auto")
    choice = names[0] if mode == "required" and len(names) == 1 else mode
    return base.checked_choice(choice, tools, "toolConfig.functionCallingConfig")


def _reply_schema(config: _Config) -> Mapping[str, Any] | None:
    """Return the schema of the reply as JSON Schema, None for plain text."""
    where = "generationConfig.responseSchema"
    has_schema = config.response_schema is not None or config.response_json_schema is not None
    if config.response_mime_type != "application/json":
        if has_schema:
            raise BadRequest(f"{where}: only with responseMimeType application/json", where)
        return None
    return config.response_schema.json_schema() if config.response_schema else config.response_json_schema or {}


_SIGNED_BY = b"whichloop:"


def signature(call_id: str) -> str:
    """Return the signature of a call, which holds its id: some clients send back the signature only.

    It has hexadecimal digits, a multiple of four: they stay as they are whichever base64 a client reads and writes.
    """
    signed = _SIGNED_BY + call_id.encode("utf-8", "replace")
    return (signed + b"\0" * (len(signed) % 2)).hex()


def _signed_id(value: str) -> str:
    """Return the id in a signature of ours; empty for any other."""
    try:
        signed = bytes.fromhex(value)
    except ValueError:
        return ""
    return signed.removeprefix(_SIGNED_BY).rstrip(b"\0").decode("utf-8", "replace") if signed.startswith(_SIGNED_BY) else ""


def _arguments(call: NativeCall) -> Mapping[str, Any] | None:
    try:
        return read_call(call).arguments
    except WireError:
        return None


def _call_parts(reply: Reply) -> list[dict[str, Any]]:
    """Write the calls: none if one is malformed; of a reply that was cut off, those before the cut."""
    sound = [call for call in reply.calls if _arguments(call) is not None]
    if len(sound) < len(reply.calls) and reply.finish_reason != "length":
        return []
    written = [{"id": call.id, "name": call.name, "args": _arguments(call)} for call in sound]
    return [{"functionCall": one, "thoughtSignature": signature(call.id)} for one, call in zip(written, sound, strict=True)]


def _response(
    request: WireRequest, reply: Reply, stamp: Stamp, parts: Sequence[Mapping[str, object]], *, ended: bool
) -> dict[str, Any]:
    """Write a reply, or a chunk of one. `ended`: it is the whole, or the last chunk."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}}
    candidate |= _ending(reply) if ended else {}
    candidate["index"] = 0
    usage = reply.usage or Usage()
    output = usage.output_tokens if ended else 0
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": output,
        "totalTokenCount": usage.input_tokens + output,
        "cachedContentTokenCount": usage.cached_tokens,
    }
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input_tokens}]}
    used = {name: value for name, value in counts.items() if value} | details
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": request.model, "responseId": stamp.id}


def _ending(reply: Reply) -> dict[str, Any]:
    if reply.finish_reason == "length":
        return {"finishReason": "MAX_TOKENS"}
    if any(_arguments(call) is None for call in reply.calls):
        written = "".join(f"print(default_api.{call.name}({call.arguments}))" for call in reply.calls)
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": f"Malformed function call: {written}"}
    if reply.finish_reason == "content_filter":
        return {"finishReason": "SAFETY"}
    return {"finishReason": "STOP"} | ({"finishMessage": "Model generated function call(s)."} if reply.calls else {})


# --- the wire ---

_STATUSES: Mapping[int, str] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Names of google.rpc.Code."""


class GeminiWire(Wire):
    """Gemini, as the Gemini Developer API has it. `labels`, which Vertex AI has, take the place of OpenAI's metadata."""

    name = "gemini"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        if path[:1] == ("v1beta",) or (path[:2] == ("v1", "models") and _model_and_verb(path)[1] in _VERBS):
            return True
        return "x-goog-api-key" in headers and path[:2] != ("v1", "chat")

    def page(self, path: Path) -> base.Page | None:
        return _VERBS.get(_model_and_verb(path)[1]) if path[1:2] == ("models",) else None

    def read(self, incoming: base.Incoming) -> WireRequest:
        model, verb = _model_and_verb(incoming.path)
        return read_request(incoming.body, model, verb, is_sse=incoming.query.get("alt") == "sse")

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        text = [{"text": reply.text}] if reply.text else []
        return _response(request, reply, stamp, [*text, *_call_parts(reply)], ended=True)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        parts = [*({"text": piece.text} for piece in pieces(reply) if piece.text), *_call_parts(reply)]
        for part in parts[:-1]:
            yield _response(request, reply, stamp, [part], ended=False)
        yield _response(request, reply, stamp, parts[-1:], ended=True)

    def failure(self, failure: Refusal) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        error: dict[str, Any] = {
            "code": failure.status,
            "message": str(failure),
            "status": _STATUSES.get(failure.status, "INVALID_ARGUMENT"),
        }
        if failure.code == "context_length_exceeded":  # clients look for these words
            error["message"] = f"The input token count exceeds the maximum number of tokens allowed. {failure}"
        if failure.wait_s is not None:
            error["message"] = f"{failure} Please retry in {failure.wait_s:g}s."
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{failure.wait_s:g}s"}]
        return failure.status, {"error": error}, {}

    def count(self, tokens: int) -> Any:
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}


GEMINI = GeminiWire()


def _model_and_verb(path: Path) -> tuple[str, str]:
    """Return the model that a path names, and what it is asked for; empty if it is asked for nothing."""
    *named, verb = "/".join(path[2:]).rsplit(":", 1)
    return (named[0], verb) if named else (verb, "")
