"""Google's Gemini API as JSON, the server's side: reads a request, and writes a reply whole or in chunks, a count or an error.

It follows the API reference, "Generating content" (ai.google.dev/api/generate-content). Arguments of calls are objects there: a
call whose arguments are none cannot be written, and the reply then ends for the reason MALFORMED_FUNCTION_CALL, as Gemini's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, WireError
from whichloop.protocol.json_text import Json
from whichloop.protocol.wire import read_call

from .contract import ErrorAnswer, Incoming, Path, RateLimitState, Stamp, StreamEvent, Wire, WireFailure, WirePage, WireRequest
from .fields import BadRequest, check_depth
from .gemini_fields import (
    FIELD_VIOLATION,
    NumberRange,
    broken_rule,
    inner_message,
    inside,
    message,
    message_type,
    number,
    read_tools,
    reply_schema,
    struct,
    text,
    texts,
    tool_choice,
)
from .gemini_history import read_contents, signature, system_text
from .openai_fields import examples_in, read_metadata, role_in

MAX_STOPS = 5
MAX_TOKENS = 2**31 - 1
_REQUEST_FIELDS = (
    "model contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent labels store serviceTier"
)
REQUEST = message_type("GenerateContentRequest", _REQUEST_FIELDS)
COUNT_REQUEST = message_type("CountTokensRequest", f"{_REQUEST_FIELDS} generateContentRequest")
CONFIG = message_type(
    "GenerationConfig",
    "candidateCount stopSequences maxOutputTokens temperature topP topK seed responseMimeType responseSchema responseJsonSchema"
    " presencePenalty frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers responseModalities speechConfig"
    " thinkingConfig imageConfig mediaResolution modelSelectionConfig audioTimestamp routingConfig responseFormat"
    " translationConfig audioTranscriptionConfig enableAffectiveDialog",
)

_VERBS: Mapping[str, WirePage] = {
    "generateContent": WirePage("reply"),
    "streamGenerateContent": WirePage("reply"),
    "countTokens": WirePage("count"),
}
_OTHER_VERBS = (
    *("embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent"),
    *("predict", "predictLongRunning", "generateMessage", "generateText"),
)
"""What Gemini's models answer beside them, and this server does not."""


class GeminiWire(Wire):
    """Gemini, as the Gemini Developer API has it."""

    name = "gemini"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        if path[:1] == ("v1beta",) or _names_a_verb(path):
            return True
        return "x-goog-api-key" in headers and path[:2] != ("v1", "chat")

    def page(self, path: Path) -> WirePage | None:
        if path[:1] not in (("v1",), ("v1beta",)) or path[1:2] != ("models",):
            return None
        named, verb = _model_and_verb(path)
        return _VERBS.get(verb) if verb else WirePage("models", "GET", named or None)

    def read(self, incoming: Incoming) -> WireRequest:
        """Read a request. `labels`, which Vertex AI has, take the place of OpenAI's metadata."""
        model, verb = _model_and_verb(incoming.path)
        return read_request(incoming.body, model, verb, incoming.query.get("alt") == "sse")

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        parts = [{"text": reply.text}] if reply.text else []
        return _response(request, reply, stamp, parts + [_call_part(call) for call in _sound_calls(reply)], ended=True)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[StreamEvent]:
        parts: list[dict[str, Any]] = [{"text": piece.text} for piece in pieces(reply) if piece.text]
        parts += [_call_part(call) for call in _sound_calls(reply)]
        for part in parts[:-1]:
            yield StreamEvent("", _response(request, reply, stamp, [part], ended=False))
        yield StreamEvent("", _response(request, reply, stamp, parts[-1:], ended=True))

    def failed_events(self, request: WireRequest, begun: Reply, failure: WireFailure, stamp: Stamp) -> Iterator[StreamEvent]:
        """Yield the events of a stream that fails: Gemini's own clients raise for a chunk with the field `error`
        (diegosouzapw/OmniRoute#4177 shows one)."""
        yield from islice(self.events(request, begun, stamp), 2)
        yield StreamEvent("", self.failure(failure).body)

    def failure(self, failure: WireFailure, limits: RateLimitState | None = None) -> ErrorAnswer:
        message, details = failure.message, list[dict[str, Any]]()
        if failure.code == FIELD_VIOLATION:
            violation = {"description": message} | ({"field": failure.param} if failure.param else {})
            details.append({"@type": f"{_RPC}.BadRequest", "fieldViolations": [violation]})
        elif failure.code in _ADDED_WORDS:
            message = _ADDED_WORDS[failure.code].format(message)
        if failure.wait_s is not None:
            message += f" Please retry in {failure.wait_s:g}s."
            details.append({"@type": f"{_RPC}.RetryInfo", "retryDelay": f"{failure.wait_s:g}s"})
        error = {"code": failure.status, "message": message, "status": _STATUSES.get(failure.status, "INVALID_ARGUMENT")}
        return ErrorAnswer(failure.status, {"error": error | ({"details": details} if details else {})}, {})

    def models(self, names: Sequence[str], created: int) -> Any:
        return {"models": [self.model(name, created) for name in names]}

    def model(self, name: str, created: int) -> Any:
        described = {"version": "1", "displayName": name, "description": "A model that whichloop serves."}
        return {"name": f"models/{name}"} | described | {"supportedGenerationMethods": ["generateContent", "countTokens"]}

    def count(self, tokens: int) -> Any:
        return {"totalTokens": tokens, "promptTokensDetails": _text_tokens(tokens)}


GEMINI = GeminiWire()


def _names_a_verb(path: Path) -> bool:
    """Whether a path asks a model for something in Gemini's way. OpenAI's models may have colons in their names: `ft:gpt-4o:x`."""
    return path[:2] == ("v1", "models") and _model_and_verb(path)[1] in {*_VERBS, *_OTHER_VERBS}


def _model_and_verb(path: Path) -> tuple[str, str]:
    """Return the model that a path names, and what it is asked for; empty if the path is that of the model's page."""
    *named, verb = "/".join(path[2:]).rsplit(":", 1)
    return (named[0], verb) if named else (verb, "")


# --- reading ---


def read_request(body: object, model: str, verb: str = "generateContent", is_sse: bool = False) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest in Google's words. `is_sse`: a stream as server-sent events."""
    where, data = "", message(body, "", COUNT_REQUEST if verb == "countTokens" else REQUEST)
    check_depth(body)
    if verb == "countTokens" and "generateContentRequest" in data:
        where, data = "generate_content_request", inner_message(data, "generateContentRequest", "", REQUEST) or {}
    messages = read_contents(data, where)
    if instruction := system_text(data, where):
        messages.insert(0, Message("system", instruction))
    tools = read_tools(data, where)
    config, place = inner_message(data, "generationConfig", where, CONFIG) or {}, inside(where, "generationConfig")
    schema = _response_schema(config, place)
    if tools and schema is not None:
        problem = "Function calling with a response mime type: 'application/json' is unsupported"
        raise BadRequest(problem, inside(place, "responseMimeType"))
    metadata = read_metadata({"metadata": struct(data, "labels", where)})
    request = Request(
        tuple(messages),
        tools,
        tool_choice(data, where, tools),
        schema,
        _sampling(config, place),
        role=role_in(metadata),
        scope=metadata.get("scope", ""),
        examples=examples_in(metadata, len(messages)),
    )
    return WireRequest(request, model, verb == "streamGenerateContent", metadata=metadata, listed=not is_sse)


def _response_schema(config: Mapping[str, object], where: str) -> Mapping[str, Json] | None:
    """Return the schema of the reply as JSON Schema, None for plain text."""
    kind = text(config, "responseMimeType", where)
    schema_fields = [name for name in ("responseSchema", "responseJsonSchema") if name in config]
    if kind in ("", "text/plain"):
        if schema_fields:
            problem = "only allowed when response_mime_type is application/json."
            raise broken_rule(inside(where, schema_fields[0]), problem)
        return None
    if kind != "application/json":
        problem = "allowed mimetypes are text/plain and application/json."
        raise broken_rule(inside(where, "responseMimeType"), problem)
    if len(schema_fields) > 1:
        raise broken_rule(inside(where, schema_fields[1]), "cannot be set beside response_schema.")
    if not schema_fields:
        return {}
    if schema_fields[0] == "responseSchema":
        return reply_schema(config["responseSchema"], inside(where, "responseSchema"))
    return struct(config, "responseJsonSchema", where)


_BOUNDS: Mapping[str, NumberRange] = {
    "temperature": NumberRange(0, 2),
    "topP": NumberRange(0, 1),
    "topK": NumberRange(1, MAX_TOKENS),
    "seed": NumberRange(-(2**31), 2**31 - 1, whole=True),
    "maxOutputTokens": NumberRange(1, MAX_TOKENS, whole=True),
    "candidateCount": NumberRange(1, 8, whole=True),
}


def _sampling(config: Mapping[str, object], where: str) -> Sampling:
    numbers = {name: number(config, name, where, bounds) for name, bounds in _BOUNDS.items()}
    if (numbers["candidateCount"] or 1) != 1:
        raise BadRequest("Multiple candidates is not enabled for this model", inside(where, "candidateCount"))
    stops = texts(config, "stopSequences", where)
    if len(stops) > MAX_STOPS:
        raise broken_rule(inside(where, "stopSequences"), f"the number of stop_sequences must not exceed {MAX_STOPS}")
    return Sampling(numbers["temperature"], numbers["maxOutputTokens"], numbers["topP"], numbers["seed"], stops)


# --- writing ---


def _sound_calls(reply: Reply) -> tuple[NativeCall, ...]:
    """Return the calls that can be written: none if one is malformed; of a reply that was cut off, those before the cut."""
    sound = tuple(call for call in reply.calls if _arguments(call) is not None)
    if len(sound) == len(reply.calls) or reply.finish_reason == "length":
        return sound
    return ()


def _arguments(call: NativeCall) -> Mapping[str, Json] | None:
    try:
        return read_call(call).arguments
    except WireError:
        return None


def _call_part(call: NativeCall) -> dict[str, Any]:
    written = {"id": call.id, "name": call.name, "args": dict(_arguments(call) or {})}
    return {"functionCall": written, "thoughtSignature": signature(call.id)}


def _response(
    request: WireRequest, reply: Reply, stamp: Stamp, parts: Sequence[Mapping[str, object]], *, ended: bool
) -> dict[str, Any]:
    """Write a reply, or a chunk of one. `ended`: it is the whole, or the last chunk."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}}
    if ended:
        candidate |= _ending(reply)
    candidate["index"] = 0
    response: dict[str, Any] = {"candidates": [candidate]}
    if reply.usage is not None:
        output_tokens = reply.usage.output_tokens if ended else 0
        counts = {
            "promptTokenCount": reply.usage.input_tokens,
            "candidatesTokenCount": output_tokens,
            "totalTokenCount": reply.usage.input_tokens + output_tokens,
            "cachedContentTokenCount": reply.usage.cached_tokens,
        }
        response["usageMetadata"] = {name: value for name, value in counts.items() if value} | {
            "promptTokensDetails": _text_tokens(reply.usage.input_tokens)
        }
    return response | {"modelVersion": request.model, "responseId": stamp.id}


def _ending(reply: Reply) -> dict[str, Any]:
    malformed = [call for call in reply.calls if _arguments(call) is None]
    if malformed and reply.finish_reason != "length":
        written = "".join(f"print(default_api.{call.name}({call.arguments}))" for call in reply.calls)
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": f"Malformed function call: {written}"}
    ending = {"finishReason": _FINISH.get(reply.finish_reason, "STOP")}
    calls_only = reply.calls and ending["finishReason"] == "STOP"
    return ending | {"finishMessage": "Model generated function call(s)."} if calls_only else ending


_FINISH: Mapping[str, str] = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
"""Gemini has no reason of its own for a reply that calls."""


def _text_tokens(tokens: int) -> list[dict[str, Json]]:
    return [{"modality": "TEXT", "tokenCount": tokens}]


# --- errors ---

_RPC = "type.googleapis.com/google.rpc"
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
_ADDED_WORDS: Mapping[str | None, str] = {
    "context_length_exceeded": "The input token count exceeds the maximum number of tokens allowed. {}",
    "model_not_found": "{} Call ListModels to see the list of available models and their supported methods.",
}
"""What Gemini says of these failures, with the reason that the server knows."""
