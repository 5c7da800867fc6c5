"""One entry for the calls of a DSPy-based loop: to any Model, or through the predictor and its engine if DSPy should see them."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import dspy
from dspy import lm15
from dspy.utils.exceptions import AdapterParseError, LMError
from pydantic_core import to_jsonable_python

from whichloop.protocol import (
    Capabilities,
    Chunk,
    Message,
    Model,
    ModelError,
    Move,
    NativeCall,
    Program,
    Prompt,
    Prompted,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    Usage,
    WireError,
)
from whichloop.protocol.json_text import Json
from whichloop.protocol.threads import run_blocking

from .chat_format import FORMAT, Fields, SignatureCodec, complaint, debug_text, outputs_of, with_instructions
from .clients import LM15_FINISH
from .errors import model_error
from .requests import arguments_object

CURRENT_REQUEST: ContextVar[Mapping[str, Any]] = ContextVar("whichloop_request")
"""What the request that a predictor makes has besides its messages, by the names of `Request`."""


class ThroughPredictor:
    """Stands for "whatever DSPy is configured with": `ask` then calls the predictor itself, and DSPy sees the call."""

    name = "dspy"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Reply:
        raise ModelError("ThroughPredictor answers through `ask` only")

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        raise ModelError("ThroughPredictor answers through `ask` only")


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result of one call of a predictor."""

    fields: Fields
    """The output fields, by name and as typed by the signature."""
    usage: Usage | None
    """None if nobody counted."""


async def ask(predictor: object, fields: Mapping[str, str], *, codec: SignatureCodec, model: Model, scope: str = "") -> Move:
    """Call a predictor with its demonstrations, the codec's signature and these input fields.

    Raises WireError for an unreadable reply, ModelError for a missing one, BudgetExceeded.
    """
    return codec.move((await ask_fields(predictor, fields, codec=codec, model=model, scope=scope)).fields)


async def ask_fields(
    predictor: object, fields: Mapping[str, str], *, codec: SignatureCodec, model: Model, scope: str = ""
) -> Prediction:
    """Call a predictor like `ask`, for a loop that needs the output fields of the reply. Raises what `ask` raises."""
    if isinstance(model, ThroughPredictor):
        return await _ask_predictor(predictor, dict(fields), codec, scope)
    request = request_of(predictor, fields, codec, scope=scope)
    debug_text("prompt", *[message.content for message in request.messages])
    reply = await model.complete(request)
    debug_text("reply", reply.text)
    return Prediction(codec.read(reply), reply.usage)


def request_of(
    predictor: Any, fields: Mapping[str, str], codec: SignatureCodec, *, scope: str = "", turns: Sequence[Message] = ()
) -> Request:
    """Return what `ask` sends: system message, demonstrations, `turns` (further messages) and the input fields."""
    prefix = _prefix(codec.signature, predictor.demos)
    user = FORMAT.format_user_message_content(codec.signature, dict(fields), main_request=True)
    return Request((*prefix, *turns, Message("user", user)), **_details(codec, scope, prefix, fields))


def _details(codec: SignatureCodec, scope: str, prefix: Sequence[Message], fields: Mapping[str, object]) -> dict[str, Any]:
    """Return what the request of a predictor has for the harness. `prefix`: the messages before the input."""
    inputs = dict(fields)
    prompted = Prompted(codec.predictor, lambda: inputs, codec.read) if codec.predictor else None
    return {"role": codec.role, "scope": scope, "codec": codec, "examples": len(prefix) - 1, "prompted": prompted}


async def _ask_predictor(predictor: Any, fields: Fields, codec: SignatureCodec, scope: str) -> Prediction:
    token = CURRENT_REQUEST.set(_details(codec, scope, _prefix(codec.signature, predictor.demos), fields))
    try:
        with dspy.context(adapter=FORMAT):
            prediction = await predictor.acall(signature=codec.signature, **fields)
    except AdapterParseError as error:
        raise WireError(complaint(error, codec.signature)) from None
    except LMError as error:
        raise model_error(error) from None
    finally:
        CURRENT_REQUEST.reset(token)
    return Prediction({name: prediction[name] for name in outputs_of(codec.signature)}, None)


def _prefix(signature: Any, demos: Sequence[Any]) -> tuple[Message, ...]:
    """Return system message and demonstrations."""
    shown = [{name: demo[name] for name in signature.fields if name in demo} for demo in demos]
    return tuple(Message(item["role"], item["content"]) for item in FORMAT.prefix(signature, shown))


# --- DSPy's predictors as a program ---


def program_of(predictors: Mapping[str, object]) -> Program:
    """Return the state of predictors, by name."""
    return {name: _prompt_of(predictor) for name, predictor in predictors.items()}


def _prompt_of(predictor: Any) -> Prompt:
    signature = predictor.signature
    inputs = {name: info.annotation for name, info in signature.input_fields.items()}
    demos = tuple(to_jsonable_python(dict(demo.items())) for demo in predictor.demos)
    return Prompt(signature.instructions, inputs, outputs_of(signature), demos)


def with_prompt(predictor: Any, prompt: Prompt) -> object:
    """Copy a predictor with other instructions and demonstrations; the fields of its signature stay."""
    prompted_predictor = copy.copy(predictor)
    prompted_predictor.signature = with_instructions(predictor.signature, prompt.instructions)
    prompted_predictor.demos = [dspy.Example(dict(demo)) for demo in prompt.demos]
    return prompted_predictor


def lm_of(model: Model) -> Any:
    """Return a `dspy.LM` that asks `model`, without cache and retries. DSPy keeps a history unless `disable_history` is set."""
    return dspy.LM(
        f"whichloop/{model.name.replace('/', '-')}",
        engine=_SyncEngine(model),
        async_engine=_AsyncEngine(model),
        cache=False,
        num_retries=0,
    )


class _AsyncEngine:
    """DSPy's asynchronous engine over a Model."""

    supports_function_calling = True
    supports_reasoning = False
    supports_response_schema = False
    supported_params = frozenset({"tools", "tool_choice", "temperature", "max_tokens", "top_p", "stop", "seed"})

    def __init__(self, model: Model) -> None:
        self.model = model

    def __deepcopy__(self, memo: object) -> object:
        return self  # optimizers deep-copy programs, and with them their LM; the model behind stays one

    async def complete(self, request: Any) -> object:
        reply = await self.model.complete(_request_of(request))
        return _response_of(reply, request.model)


class _SyncEngine(_AsyncEngine):
    """The same for DSPy's synchronous calls, whose caller waits."""

    def complete(self, request: object) -> Any:
        return run_blocking(super().complete(request))


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
    choice = config.tool_choice
    several = choice is None or choice.parallel is not False
    converted = Request(tuple(messages), tools, _choice_of(choice), _schema_of(config.response_format), sampling, several)
    return replace(converted, **CURRENT_REQUEST.get({}))


def _choice_of(choice: Any) -> str | None:
    if choice is None:
        return None
    return str(choice.allowed[0] if len(choice.allowed) == 1 else choice.mode)


def _schema_of(response_format: Any) -> Mapping[str, Json] | None:
    """Return the schema, which OpenAI's form has one level deeper than lm15's; None if there is none."""
    fields = response_format or {}
    schema: Mapping[str, Any] | None = fields.get("json_schema", fields).get("schema")
    return schema


def _messages_of(message: Any) -> list[Message]:
    """Return one lm15 message as ours; a tool message may hold several results."""
    results = [part for part in message.parts if part.type == "tool_result"]
    if results:
        return [Message("tool", "".join(p.text for p in part.content), call_id=part.id) for part in results]
    text = "".join(part.text for part in message.parts if part.type == "text")
    calls = tuple(
        NativeCall(part.id, part.name, json.dumps(part.input, ensure_ascii=False))
        for part in message.parts
        if part.type == "tool_call"
    )
    return [Message("system" if message.role == "developer" else message.role, text, calls)]


def _response_of(reply: Reply, model: str) -> object:
    parts: list[object] = [lm15.TextPart(reply.text)]
    parts += [lm15.ToolCallPart(id=call.id, name=call.name, input=arguments_object(call.arguments)) for call in reply.calls]
    usage = reply.usage
    return lm15.Response(
        id=None,
        model=model,
        message=lm15.Message.assistant(parts),
        finish_reason="tool_call" if reply.calls and reply.finish_reason != "length" else LM15_FINISH[reply.finish_reason],
        usage=lm15.Usage()
        if usage is None
        else lm15.Usage(usage.input_tokens, usage.output_tokens, cache_read_tokens=usage.cached_tokens),
    )
