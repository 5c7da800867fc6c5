"""The one module that knows DSPy's model and adapter layer (3.4: engines, `dspy.lm15`, ChatAdapter).

Three things pass through here. `ask` is how a DSPy-based loop calls a predictor: rendered and parsed by DSPy's own chat format,
sent to any `Model`; under a teleprompter the same `ask` goes through the predictor, so that DSPy records its trace. `lm_of` makes
a `dspy.LM` of a `Model`, and `DspyModel` a `Model` of a `dspy.LM`, which is how real models are reached.
"""

from __future__ import annotations

import logging
import os

# Read by LiteLLM and DSPy when they are first imported: no price table fetched from the network, no cache on disk.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import dspy
from dspy import lm15
from dspy.adapters.chat_adapter import field_header_pattern
from dspy.adapters.utils import parse_value
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMTimeoutError,
    LMTransportError,
)

from loopbench.protocol import (
    BudgetExceeded,
    Capabilities,
    Chunk,
    ContextOverflow,
    Inexpressible,
    Message,
    Model,
    ModelError,
    Move,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Role,
    Usage,
    WireError,
    run_sync,
)
from loopbench.protocol.chat import FinishReason
from loopbench.protocol.model import ProviderTrouble

logger = logging.getLogger("loopbench.dspy")

Fields = dict[str, Any]
_LINE_BREAKS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


# --- the chat format ---


class ChatFormat(dspy.ChatAdapter):  # type: ignore[misc]  # DSPy ships no types
    """DSPy's ChatAdapter byte for byte, with what does not change from call to call rendered once.

    A reply that does not parse is an error, never a second call in another format.
    """

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def format_system_message(self, signature: Any) -> str:
        return _system_message(signature)

    def user_message_output_requirements(self, signature: Any) -> str:
        return _output_requirements(signature)

    def format_user_message_content(
        self, signature: Any, inputs: Fields, prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        if prefix or suffix or not all(type(value) is str for value in inputs.values()):
            return str(super().format_user_message_content(signature, inputs, prefix, suffix, main_request))
        parts = [f"[[ ## {name} ## ]]\n{inputs[name]}" for name in signature.input_fields if name in inputs]
        if main_request:
            parts.append(_output_requirements(signature))
        # An empty prefix and suffix stand first and last in DSPy's join, and are stripped again with the rest.
        return "\n\n".join(parts).strip()

    def format(self, signature: Any, demos: Sequence[Fields], inputs: Fields) -> list[Fields]:
        user = self.format_user_message_content(signature, inputs, main_request=True)
        return [*self.prefix(signature, demos), {"role": "user", "content": user}]

    def prefix(self, signature: Any, demos: Sequence[Fields]) -> list[Fields]:
        """The messages before the current input: system and demonstrations."""
        system = {"role": "system", "content": _system_message(signature)}
        return [system, *self.format_demos(signature, demos)] if demos else [system]

    def parse(self, signature: Any, completion: str) -> Fields:
        fields = _read_sections(signature, completion)
        if fields is not None:
            return fields
        return cast(Fields, super().parse(signature, completion))  # raises AdapterParseError with DSPy's words


def _read_sections(signature: Any, completion: str) -> Fields | None:
    """What ChatAdapter.parse gives, for replies that need no repair; None leaves the rest to it."""
    outputs = _outputs(signature)
    found: dict[str, str] = {}
    name, lines = "", list[str]()
    for line in [*completion.splitlines(), "[[ ## completed ## ]]"]:
        header = field_header_pattern.match(line.strip()) if "[[ ##" in line else None
        if header is None:
            lines.append(line)
            continue
        if name in outputs and name not in found:
            found[name] = "\n".join(lines).strip()
        name = header.group(1)
        rest = line.strip()[header.end() :].strip()
        lines = [rest] if rest else []
    if len(found) != len(outputs):
        return None
    fields: Fields = {}
    for name, annotation in outputs.items():
        try:
            fields[name] = _read_value(found[name], annotation)
        except ValueError:
            return None
    return fields


def _read_value(text: str, annotation: Any) -> Any:
    if annotation is str:
        return text
    if annotation == dict[str, Any]:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("no object")
        return value
    return parse_value(text, annotation)


@lru_cache(maxsize=512)
def _outputs(signature: Any) -> dict[str, Any]:
    return {name: info.annotation for name, info in signature.output_fields.items()}


@lru_cache(maxsize=512)
def _system_message(signature: Any) -> str:
    return str(dspy.Adapter.format_system_message(FORMAT, signature))


@lru_cache(maxsize=512)
def _output_requirements(signature: Any) -> str:
    return str(dspy.ChatAdapter.user_message_output_requirements(FORMAT, signature))


FORMAT = ChatFormat()


@lru_cache(maxsize=512)
def with_instructions(signature: Any, instructions: str) -> Any:
    """The signature with other instructions; the same object for equal arguments, so that nothing is rendered twice."""
    return signature.with_instructions(instructions)


# --- codecs over signatures ---


class SignatureCodec(ABC):
    """A codec whose wire format is a signature's output fields in DSPy's chat format.

    Cannot say, in a text field: white space at either end, line breaks other than a line feed, a line that begins like a field
    marker. JSON fields have no such gaps.
    """

    name: str
    role: Role
    max_calls: int = 1

    def __init__(self, signature: Any) -> None:
        self.signature = signature

    @abstractmethod
    def fields(self, move: Move) -> Fields:
        """The output fields that state a move. Raises Inexpressible."""

    @abstractmethod
    def move(self, fields: Fields) -> Move:
        """The move that output fields state. Raises WireError."""

    def render(self, move: Move) -> Reply:
        fields = self.fields(move)
        parts = [
            f"[[ ## {name} ## ]]\n{_field_text(name, fields[name], annotation)}"
            for name, annotation in _outputs(self.signature).items()
        ]
        return Reply("\n\n".join([*parts, "[[ ## completed ## ]]\n"]))

    def parse(self, reply: Reply) -> Move:
        try:
            return self.move(FORMAT.parse(self.signature, reply.text))
        except AdapterParseError as error:
            raise WireError(_complaint(error, self.signature)) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


def _field_text(name: str, value: Any, annotation: Any) -> str:
    if annotation is str:
        if not isinstance(value, str):
            raise Inexpressible(f"{name}: text is wanted, not {type(value).__name__}")
        lines = value.splitlines()
        if "\n".join(lines) != value or value.strip() != value or any(_is_header(line) for line in lines):
            raise Inexpressible(f"{name}: white space at an end, an unusual line break or a field marker")
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_BREAKS)
        same = _read_value(text, annotation) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(f"{name}: {error}") from None
    if not same:
        raise Inexpressible(f"{name}: a value that JSON does not give back as it was")
    return text


def _is_header(line: str) -> bool:
    return field_header_pattern.match(line.strip()) is not None


def _complaint(error: AdapterParseError, signature: Any) -> str:
    wanted = list(_outputs(signature))
    if isinstance(error.parsed_result, dict):
        missing = [name for name in wanted if name not in error.parsed_result]
        headers = ", ".join(f"[[ ## {name} ## ]]" for name in wanted)
        return f"The reply lacks {', '.join(missing)}. It must have the sections {headers}"
    reason = str(error).strip().splitlines()
    return next((line for line in reason if line.startswith("Failed to parse")), reason[0] if reason else "unreadable")


# --- asking ---


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a predictor's request carries beside its messages."""

    codec: SignatureCodec
    scope: str


_ASKED: ContextVar[_Asked | None] = ContextVar("loopbench_asked", default=None)


class ThroughPredictor:
    """Stands for "whatever DSPy is configured with": `ask` then calls the predictor itself, and DSPy sees the call."""

    name = "dspy"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Reply:
        raise ModelError("ThroughPredictor answers through `ask` only")

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        raise ModelError("ThroughPredictor answers through `ask` only")


async def ask(predictor: Any, fields: Mapping[str, str], *, codec: SignatureCodec, model: Model, scope: str = "") -> Move:
    """One call of a predictor: its demonstrations, the codec's signature, these input fields.

    Raises WireError for an unreadable reply, ModelError where there is none, BudgetExceeded.
    """
    if isinstance(model, ThroughPredictor):
        return await _ask_predictor(predictor, dict(fields), codec, scope)
    user = FORMAT.format_user_message_content(codec.signature, dict(fields), main_request=True)
    messages = (*_prefix(codec.signature, predictor.demos), Message("user", user))
    _debug("prompt", "\n\n".join(message.content for message in messages))
    reply = await model.complete(Request(messages, role=codec.role, scope=scope, codec=codec))
    _debug("reply", reply.text)
    return codec.parse(reply)


async def _ask_predictor(predictor: Any, fields: Fields, codec: SignatureCodec, scope: str) -> Move:
    token = _ASKED.set(_Asked(codec, scope))
    try:
        with dspy.context(adapter=FORMAT):
            prediction = await predictor.acall(signature=codec.signature, **fields)
    except AdapterParseError as error:
        raise WireError(_complaint(error, codec.signature)) from None
    except LMError as error:
        raise model_error(error) from error
    finally:
        _ASKED.reset(token)
    return codec.move({name: prediction[name] for name in _outputs(codec.signature)})


_PREFIXES: dict[tuple[Any, tuple[int, ...]], tuple[list[Any], tuple[Message, ...]]] = {}
_MOST_PREFIXES = 256


def _prefix(signature: Any, demos: Sequence[Any]) -> tuple[Message, ...]:
    """System message and demonstrations, rendered once per program."""
    key = (signature, tuple(map(id, demos)))
    known = _PREFIXES.get(key)
    if known is None:
        if len(_PREFIXES) >= _MOST_PREFIXES:
            _PREFIXES.clear()
        made = tuple(Message(item["role"], item["content"]) for item in FORMAT.prefix(signature, [dict(d) for d in demos]))
        known = _PREFIXES[key] = (list(demos), made)  # the demos are held, so that their ids stay theirs
    return known[1]


def _debug(what: str, text: str) -> None:
    """`DSPY_DEBUG=true` shows prompts and replies on stderr (row S2-12)."""
    if os.environ.get("DSPY_DEBUG", "").lower() != "true":
        return
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    logger.debug("%s:\n%s", what, text)


# --- a Model as a dspy.LM ---


def lm_of(model: Model) -> Any:
    """A `dspy.LM` that asks `model`: no cache, no retries, no history of its own."""
    return dspy.LM(
        f"loopbench/{model.name.replace('/', '-')}",
        engine=_Engine(model),
        async_engine=_AsyncEngine(model),
        cache=False,
        num_retries=0,
    )


class _AsyncEngine:
    supports_function_calling = True
    supports_reasoning = False
    supports_response_schema = False
    supported_params = frozenset({"tools", "tool_choice", "temperature", "max_tokens", "top_p", "stop", "seed"})

    def __init__(self, model: Model) -> None:
        self.model = model

    def __deepcopy__(self, memo: object) -> Any:
        return self  # optimizers deep-copy programs, and with them their LM; the model behind stays one

    async def complete(self, request: Any) -> Any:
        reply = await self.model.complete(_request_of(request))
        return _response_of(reply, request.model)


class _Engine(_AsyncEngine):
    def complete(self, request: Any) -> Any:
        return run_sync(super().complete(request))


def _request_of(request: Any) -> Request:
    asked = _ASKED.get()
    messages = []
    if request.system:
        system = request.system if isinstance(request.system, str) else "\n".join(part.text for part in request.system)
        messages.append(Message("system", system))
    for message in request.messages:
        messages.extend(_messages_of(message))
    if asked is None:
        return Request(tuple(messages))
    return Request(tuple(messages), role=asked.codec.role, scope=asked.scope, codec=asked.codec)


def _messages_of(message: Any) -> list[Message]:
    """One lm15 message; a tool message may hold several results."""
    results = [part for part in message.parts if part.type == "tool_result"]
    if results:
        return [Message("tool", "".join(p.text for p in part.content), call_id=part.id) for part in results]
    text = "".join(part.text for part in message.parts if part.type == "text")
    calls = tuple(NativeCall(part.id, part.name, json.dumps(part.input)) for part in message.parts if part.type == "tool_call")
    return [Message("system" if message.role == "developer" else message.role, text, calls)]


def _response_of(reply: Reply, model: str) -> Any:
    parts: list[Any] = [lm15.TextPart(reply.text)]
    parts += [lm15.ToolCallPart(id=call.id, name=call.name, input=_object(call.arguments)) for call in reply.calls]
    usage = reply.usage or Usage()
    return lm15.Response(
        id=None,
        model=model,
        message=lm15.Message.assistant(parts),
        finish_reason="tool_call" if reply.calls else "stop",
        usage=lm15.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
    )


def _object(text: str) -> dict[str, Any]:
    """Raw arguments as lm15 wants them: an object; text that is none stays readable under a key of its own."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {"_unparsed": text}
    return value if isinstance(value, dict) else {"_unparsed": text}


# --- a dspy.LM as a Model ---


class DspyModel:
    """Any `dspy.LM` as a Model: OpenAI, Anthropic, Ollama, vLLM, or an OpenAI-compatible server."""

    def __init__(self, lm: Any, capabilities: Capabilities | None = None) -> None:
        self.lm = lm
        self.capabilities = capabilities or Capabilities(
            native_tools=bool(lm.supports_function_calling),
            tool_choice=bool(lm.supports_function_calling),
            response_schema=bool(lm.supports_response_schema),
            streaming=False,
        )

    @property
    def name(self) -> str:
        return str(self.lm.model)

    async def complete(self, request: Request) -> Reply:
        try:
            response = await self.lm.acall(_lm15_request(request, self.lm.model))
        except LMError as error:
            raise model_error(error) from error
        return _reply_of(response)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The whole reply as one chunk: `capabilities.streaming` is False."""
        reply = await self.complete(request)
        yield Chunk(reply.text, reply=reply)

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.lm.aclose()


def _lm15_request(request: Request, model: str) -> Any:
    system = "\n\n".join(message.content for message in request.messages if message.role == "system")
    messages = [_lm15_message(message) for message in request.messages if message.role != "system"]
    sampling = request.sampling
    choice = None
    if request.tool_choice in ("auto", "required", "none"):
        choice = lm15.ToolChoice(mode=request.tool_choice)
    elif request.tool_choice is not None:
        choice = lm15.ToolChoice(mode="required", allowed=(request.tool_choice,))
    schema = request.response_schema
    config = lm15.Config(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=sampling.stop,
        tool_choice=choice,
        response_format=None if schema is None else _response_format(schema),
    )
    tools = tuple(
        lm15.FunctionTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters)) for tool in request.tools
    )
    return lm15.Request(model=model, messages=tuple(messages), system=system or None, tools=tools, config=config)


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _lm15_message(message: Message) -> Any:
    if message.role == "tool":
        return lm15.Message(
            role="tool", parts=(lm15.ToolResultPart(id=message.call_id, content=(lm15.TextPart(message.content),)),)
        )
    if message.role == "user":
        return lm15.Message.user(message.content)
    parts: list[Any] = [lm15.TextPart(message.content)] if message.content or not message.calls else []
    parts += [lm15.ToolCallPart(id=call.id, name=call.name, input=_object(call.arguments)) for call in message.calls]
    return lm15.Message.assistant(parts)


_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}


def _reply_of(response: Any) -> Reply:
    parts = response.message.parts
    usage = response.usage
    return Reply(
        "".join(part.text for part in parts if part.type == "text"),
        tuple(NativeCall(part.id, part.name, json.dumps(part.input)) for part in parts if part.type == "tool_call"),
        None
        if usage.input_tokens is None and usage.output_tokens is None
        else Usage(usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_read_tokens or 0),
        _FINISH.get(response.finish_reason, "other"),
    )


def model_error(error: LMError) -> ModelError | BudgetExceeded:
    """DSPy's error as ours. One that a Model of ours raised inside a DSPy engine comes back as it was."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelError | BudgetExceeded):
            return cause
        cause = cause.__cause__
    if isinstance(error, ContextWindowExceededError):
        return ContextOverflow(error.message)
    kinds: list[tuple[tuple[type[LMError], ...], ProviderTrouble]] = [
        ((LMRateLimitError,), "rate_limit"),
        ((LMTimeoutError,), "timeout"),
        ((LMTransportError,), "connection"),
        ((LMAuthError, LMBillingError, LMConfigurationError), "auth"),
        ((LMInvalidRequestError,), "bad_request"),
    ]
    kind: ProviderTrouble = next((kind for types, kind in kinds if isinstance(error, types)), "server")
    return ProviderError(error.message, kind, status=error.status, retry_after_s=error.retry_after)


__all__ = [
    "FORMAT",
    "ChatFormat",
    "DspyModel",
    "SignatureCodec",
    "ThroughPredictor",
    "ask",
    "lm_of",
    "model_error",
    "with_instructions",
]
