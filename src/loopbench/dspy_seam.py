"""The one module that knows DSPy's model and adapter layer (3.4: engines, `dspy.lm15`, ChatAdapter).

Three things pass through here. `ask` is how a DSPy-based loop calls a predictor: rendered and parsed by DSPy's own chat format,
sent to any `Model`; under a teleprompter the same `ask` goes through the predictor, so that DSPy records its trace. `lm_of` makes
a `dspy.LM` of a `Model`, and `DspyModel` a `Model` of a `dspy.LM`, which is how real models are reached.
"""

from __future__ import annotations

import logging
import os
import re

# Read by LiteLLM when it is first imported: no price table is fetched from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import copy
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, cast

import dspy
from dspy import lm15
from dspy.adapters.chat_adapter import field_header_pattern
from dspy.adapters.utils import parse_value
from dspy.clients.capabilities import resolve
from dspy.clients.costs import estimate_cost
from dspy.clients.model_metadata import model_info
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
    LMUnsupportedFeatureError,
)
from pydantic import BaseModel

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
    Sampling,
    ToolSpec,
    Usage,
    WireError,
    run_sync,
)
from loopbench.protocol.chat import FinishReason
from loopbench.protocol.model import ProviderTrouble
from loopbench.protocol.redact import redact

logger = logging.getLogger("loopbench.dspy")

Fields = dict[str, Any]

MOST_NESTED = 60
"""Brackets within brackets that DSPy's lenient reading is tried on: Python's own parser, its last resort, fails beyond 200."""
MOST_REPAIRED = 10_000
"""Characters of a reply that DSPy's lenient reading is tried on: its time grows with the square of the length."""
_LINE_BREAKS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


# --- the chat format ---


class ChatFormat(dspy.ChatAdapter):  # type: ignore[misc]  # DSPy ships no types
    """DSPy's ChatAdapter byte for byte, with what does not change from call to call rendered once.

    A reply that does not parse is an error, never a second call in another format. Two things differ: a value nested too deep to
    be read is such an error too, and the markers of DSPy's custom types stay text, wherever an input got them from.
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
        messages = [*self.prefix(signature, demos), {"role": "user", "content": user}]
        _debug("prompt", "\n\n".join(message["content"] for message in messages))
        return messages

    def prefix(self, signature: Any, demos: Sequence[Fields]) -> list[Fields]:
        """The messages before the current input: system and demonstrations."""
        system = {"role": "system", "content": _system_message(signature)}
        return [system, *self.format_demos(signature, demos)] if demos else [system]

    def parse(self, signature: Any, completion: str) -> Fields:
        _debug("reply", completion)
        return self.read(signature, completion)

    def read(self, signature: Any, completion: str) -> Fields:
        """The output fields of a completion. Raises AdapterParseError with DSPy's words."""
        try:
            fields = _read_sections(signature, completion)
            if fields is not None:
                return fields
            if len(completion) > MOST_REPAIRED:
                raise AdapterParseError("ChatAdapter", signature, completion, "The reply is too long to be repaired.")
            if _nesting(completion) > MOST_NESTED:
                raise AdapterParseError("ChatAdapter", signature, completion, "A value is nested too deep to be read.")
            return cast(Fields, super().parse(signature, completion))
        except (RecursionError, MemoryError) as error:  # json's limit, and that of Python's own parser
            raise AdapterParseError("ChatAdapter", signature, completion, "A value is nested too deep to be read.") from error


def _nesting(text: str) -> int:
    """The deepest place in a text, in open brackets."""
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}" and depth:
            depth -= 1
    return deepest


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
        rest = line[header.end() :].strip()  # of the line as it is, as DSPy has it
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
        return self.move(self.read(reply))

    def read(self, reply: Reply) -> Fields:
        """The output fields of a reply. Raises WireError."""
        try:
            return FORMAT.read(self.signature, reply.text)
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
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False).translate(_LINE_BREAKS)
        same = _read_value(text, annotation) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(f"{name}: {error}") from None
    if not same:
        raise Inexpressible(f"{name}: a value that JSON does not give back as it was")
    return text


def _is_header(line: str) -> bool:
    return field_header_pattern.match(line.strip()) is not None


_BAD_FIELD = re.compile(r"Failed to parse field (\w+) with value (.*) from the LM response\. Error message: ", re.DOTALL)
_EMPTY_REPLY = "The LM returned an empty"
_SHOWN_CHARS = 200
_KINDS = {dict[str, Any]: "a JSON object", list[Any]: "a JSON array", float: "a number", int: "an integer", bool: "True or False"}


def _complaint(error: AdapterParseError, signature: Any) -> str:
    """What was wrong, in words that a model can act on; the same for a reply that came through a predictor."""
    bad = _BAD_FIELD.match(error.message)
    if bad is not None:
        name, value = bad.groups()
        kind = _kind(_outputs(signature)[name])
        return f"Failed to parse field {name}: it must be {kind}, not: {value[:_SHOWN_CHARS]}"
    if error.parsed_result is None and not error.message.startswith(_EMPTY_REPLY):
        return str(error.message).splitlines()[0]
    missing = [name for name in _outputs(signature) if name not in (error.parsed_result or {})]
    headers = ", ".join(f"[[ ## {name} ## ]]" for name in _outputs(signature))
    return f"The reply lacks {', '.join(missing)}. It must have the sections {headers}"


def _kind(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        needed = ", ".join(name for name, info in annotation.model_fields.items() if info.is_required())
        return f"a JSON object with at least {needed}, each of its own type"
    return _KINDS.get(annotation, "a JSON value")


# --- asking ---


@dataclass(frozen=True, slots=True)
class _Asking:
    """What a predictor's request carries beside its messages."""

    codec: SignatureCodec
    scope: str


_ASKED: ContextVar[_Asking | None] = ContextVar("loopbench_asked", default=None)


class ThroughPredictor:
    """Stands for "whatever DSPy is configured with": `ask` then calls the predictor itself, and DSPy sees the call."""

    name = "dspy"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Reply:
        raise ModelError("ThroughPredictor answers through `ask` only")

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        raise ModelError("ThroughPredictor answers through `ask` only")


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one call of a predictor."""

    fields: Fields
    """The output fields, by name and as typed by the signature."""
    usage: Usage | None
    """None where nobody counted."""


async def ask(predictor: Any, fields: Mapping[str, str], *, codec: SignatureCodec, model: Model, scope: str = "") -> Move:
    """One call of a predictor: its demonstrations, the codec's signature, these input fields.

    Raises WireError for an unreadable reply, ModelError where there is none, BudgetExceeded.
    """
    return codec.move((await ask_fields(predictor, fields, codec=codec, model=model, scope=scope)).fields)


async def ask_fields(predictor: Any, fields: Mapping[str, str], *, codec: SignatureCodec, model: Model, scope: str = "") -> Asked:
    """`ask`, for a loop that needs more of the reply than the move: its output fields as they are. Raises what `ask` raises."""
    if isinstance(model, ThroughPredictor):
        return await _ask_predictor(predictor, dict(fields), codec, scope)
    user = FORMAT.format_user_message_content(codec.signature, dict(fields), main_request=True)
    messages = (*_prefix(codec.signature, predictor.demos), Message("user", user))
    _debug("prompt", "\n\n".join(message.content for message in messages))
    reply = await model.complete(Request(messages, role=codec.role, scope=scope, codec=codec))
    _debug("reply", reply.text)
    return Asked(codec.read(reply), reply.usage)


async def _ask_predictor(predictor: Any, fields: Fields, codec: SignatureCodec, scope: str) -> Asked:
    token = _ASKED.set(_Asking(codec, scope))
    try:
        with dspy.context(adapter=FORMAT):
            prediction = await predictor.acall(signature=codec.signature, **fields)
    except AdapterParseError as error:
        raise WireError(_complaint(error, codec.signature)) from None
    except LMError as error:
        raise model_error(error) from error
    finally:
        _ASKED.reset(token)
    return Asked({name: prediction[name] for name in _outputs(codec.signature)}, None)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """Messages made of demonstrations."""

    demos: tuple[Any, ...]
    """Held, so that their ids stay theirs."""
    shown: list[Fields]
    """What of them was rendered: a demonstration may be changed in place."""
    messages: tuple[Message, ...]


_PREFIXES: dict[tuple[Any, tuple[int, ...]], _Prefix] = {}
_MOST_PREFIXES = 256


def _prefix(signature: Any, demos: Sequence[Any]) -> tuple[Message, ...]:
    """System message and demonstrations, rendered once per program."""
    key = (signature, tuple(map(id, demos)))
    shown = [{name: demo[name] for name in signature.fields if name in demo} for demo in demos]
    known = _PREFIXES.get(key)
    if known is None or known.shown != shown:
        if len(_PREFIXES) >= _MOST_PREFIXES:
            _PREFIXES.clear()
        messages = tuple(Message(item["role"], item["content"]) for item in FORMAT.prefix(signature, shown))
        known = _PREFIXES[key] = _Prefix(tuple(demos), copy.deepcopy(shown), messages)
    return known.messages


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

_LM15_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
    "other": "error",
}
_FINISH: dict[str, FinishReason] = {theirs: ours for ours, theirs in _LM15_FINISH.items()}


def lm_of(model: Model) -> Any:
    """A `dspy.LM` that asks `model`: no cache, no retries. DSPy keeps its history of calls, unless `disable_history` is set."""
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
    messages = []
    if request.system:
        system = request.system if isinstance(request.system, str) else "\n".join(part.text for part in request.system)
        messages.append(Message("system", system))
    for message in request.messages:
        messages.extend(_messages_of(message))
    tools = tuple(ToolSpec(tool.name, tool.description or "", tool.parameters) for tool in request.tools)
    config = request.config
    sampling = Sampling(config.temperature, config.max_tokens, config.top_p, config.seed, tuple(config.stop))
    made = Request(tuple(messages), tools, _choice_of(config.tool_choice), _schema_of(config.response_format), sampling)
    asked = _ASKED.get()
    return made if asked is None else replace(made, role=asked.codec.role, scope=asked.scope, codec=asked.codec)


def _choice_of(choice: Any) -> str | None:
    if choice is None:
        return None
    return str(choice.allowed[0] if len(choice.allowed) == 1 else choice.mode)


def _schema_of(response_format: Any) -> Mapping[str, Any] | None:
    """OpenAI's form has the schema one level deeper than lm15's; a format without one is none."""
    asked = response_format or {}
    schema: Mapping[str, Any] | None = asked.get("json_schema", asked).get("schema")
    return schema


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
    usage = reply.usage
    return lm15.Response(
        id=None,
        model=model,
        message=lm15.Message.assistant(parts),
        finish_reason="tool_call" if reply.calls else _LM15_FINISH[reply.finish_reason],
        usage=lm15.Usage()
        if usage is None
        else lm15.Usage(usage.input_tokens, usage.output_tokens, cache_read_tokens=usage.cached_tokens),
    )


def _object(text: str) -> dict[str, Any]:
    """Raw arguments as lm15 wants them: an object; text that is none stays readable under a key of its own."""
    try:
        value = json.loads(text or "{}")
        if "\\u" in text:  # an escape may stand for what no provider takes
            value = json.loads(_sendable(json.dumps(value, ensure_ascii=False)))
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
        self._priced = _priced(lm)

    @property
    def name(self) -> str:
        return str(self.lm.model)

    async def complete(self, request: Request) -> Reply:
        """Raises ProviderError and ContextOverflow, without their causes: those may hold a key."""
        try:
            with dspy.context(disable_history=True):
                response = await self.lm.acall(_lm15_request(request, self.lm.model))
        except LMError as error:
            raise model_error(error) from None
        except (TypeError, ValueError) as error:  # what lm15 refuses to send: a call without a name, a tool that is not offered
            raise ProviderError(f"not sent: {redact(str(error))}", "bad_request") from None
        return _reply_of(response, _cost_usd(response, self._priced))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The whole reply as one chunk: `capabilities.streaming` is False."""
        reply = await self.complete(request)
        yield Chunk(reply.text, reply=reply)

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.lm.aclose()


def _priced(lm: Any) -> Any:
    """Where DSPy's price list (LiteLLM's, shipped with DSPy and read offline) has the model; None where it has not."""
    if not isinstance(getattr(lm, "engine", None), str):
        return None  # an engine of one's own
    try:
        route = resolve(lm)
    except lm15.LM15Error:  # a provider that DSPy leaves to LiteLLM
        return None
    return route if "input_cost_per_token" in model_info(route.provider, route.model) else None


def _cost_usd(response: Any, route: Any) -> float | None:
    if route is None:
        return None
    cost, _ = estimate_cost(response, provider=route.provider, requested_model=route.model)
    return None if cost is None else float(cost)


def _lm15_request(request: Request, model: str) -> Any:
    first = next((i for i, message in enumerate(request.messages) if message.role != "system"), len(request.messages))
    system = "\n\n".join(message.content for message in request.messages[:first])
    runs = groupby(request.messages[first:], lambda message: message.role == "tool")
    messages = [made for from_tools, run in runs for made in ([_tool_results(run)] if from_tools else map(_lm15_message, run))]
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
        response_format=None if schema is None else {"type": "json_schema", "name": "answer", "schema": dict(schema)},
    )
    tools = tuple(
        lm15.FunctionTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters)) for tool in request.tools
    )
    return lm15.Request(model=model, messages=tuple(messages), system=_sendable(system) or None, tools=tools, config=config)


def _tool_results(messages: Iterable[Message]) -> Any:
    """Results that stand together as one message: Gemini wants those of one turn so."""
    parts = [lm15.ToolResultPart(id=m.call_id, content=(lm15.TextPart(_sendable(m.content)),)) for m in messages]
    return lm15.Message(role="tool", parts=tuple(parts))


def _lm15_message(message: Message) -> Any:
    text = _sendable(message.content)
    if message.role == "user":
        return lm15.Message.user(text)
    if message.role == "system":
        return lm15.Message.developer(text)  # lm15 keeps it in its place; a provider without the role sees a marked user message
    parts: list[Any] = [lm15.TextPart(text)] if text or not message.calls else []
    parts += [lm15.ToolCallPart(id=call.id, name=call.name, input=_object(_sendable(call.arguments))) for call in message.calls]
    return lm15.Message.assistant(parts)


def _sendable(text: str) -> str:
    """Lone surrogates, which a model or a tool may produce but no provider takes, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _reply_of(response: Any, cost_usd: float | None) -> Reply:
    usage = response.usage
    return Reply(
        "".join(part.text for part in response.message.parts if part.type in ("text", "refusal")),
        _native_calls(response),
        None
        if usage.input_tokens is None and usage.output_tokens is None
        else Usage(usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_read_tokens or 0, cost_usd=cost_usd),
        _FINISH[response.finish_reason],
    )


def _native_calls(response: Any) -> tuple[NativeCall, ...]:
    """The calls with their arguments as sent: lm15 makes an object of its own of arguments that are none."""
    parts = [part for part in response.message.parts if part.type == "tool_call"]
    raw = _raw_arguments(response.provider_data)
    if len(raw) != len(parts):
        raw = [None] * len(parts)
    return tuple(
        NativeCall(part.id, part.name, text if isinstance(text, str) else json.dumps(part.input))
        for part, text in zip(parts, raw, strict=True)
    )


def _raw_arguments(data: Any) -> list[Any]:
    """From a body in OpenAI's format; empty for any other."""
    try:
        return [call["function"]["arguments"] for call in data["choices"][0]["message"]["tool_calls"]]
    except (KeyError, IndexError, TypeError):
        return []


# Servers that speak OpenAI's format word it as they like; only OpenAI's own code for it is known to DSPy.
_OVERFLOW = re.compile(r"context (length|window|size)|prompt is too long|too many (input )?tokens", re.IGNORECASE)
_ADDED = re.compile(r"\n\n  (?:To fix|credential came from):")


def model_error(error: LMError) -> ModelError | BudgetExceeded:
    """DSPy's error as ours. One that a Model of ours raised inside a DSPy engine comes back as it was."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelError | BudgetExceeded):
            return cause
        cause = cause.__cause__
    message = _message_of(error)
    if isinstance(error, ContextWindowExceededError) or (isinstance(error, LMInvalidRequestError) and _OVERFLOW.search(message)):
        return ContextOverflow(message)
    kinds: list[tuple[tuple[type[LMError], ...], ProviderTrouble]] = [
        ((LMRateLimitError,), "rate_limit"),
        ((LMTimeoutError,), "timeout"),
        ((LMTransportError,), "connection"),
        ((LMAuthError, LMBillingError, LMConfigurationError), "auth"),
        ((LMInvalidRequestError, LMUnsupportedFeatureError), "bad_request"),
    ]
    kind: ProviderTrouble = next((kind for types, kind in kinds if isinstance(error, types)), "server")
    return ProviderError(message, kind, status=error.status, retry_after_s=error.retry_after)


def _message_of(error: LMError) -> str:
    """The provider's words in one line, without secrets and without what lm15 adds for programmers."""
    said = _ADDED.split(redact(error.message), maxsplit=1)[0]
    return " ".join(said.split()) or (f"HTTP {error.status}" if error.status else type(error).__name__)


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
