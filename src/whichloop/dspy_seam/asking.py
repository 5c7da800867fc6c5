"""One entry for the calls of a DSPy-based loop, to any Model, and any Model as a `dspy.LM`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import dspy
from dspy import lm15

from whichloop.protocol.chat import Message, NativeCall, Reply
from whichloop.protocol.model import Model, Request, Sampling
from whichloop.protocol.moves import WireError
from whichloop.protocol.program import Prompt, Prompted
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.tool_calls import ToolSpec

from .chat_format import FORMAT, Fields, SignatureCodec, debug_text, outputs_of, with_instructions
from .clients import CURRENT_REQUEST, LM15_FINISH
from .model import DspyModel
from .requests import arguments_object


async def ask(
    predictor: Any,
    inputs: Mapping[str, str],
    *,
    codec: SignatureCodec,
    model: Model | None,
    turns: Sequence[Message] = (),
    told: Mapping[str, str] | None = None,
) -> tuple[Fields, Reply]:
    """Ask with the demonstrations of a predictor, or of its Prompt, and the codec's signature.

    Return the output fields, and the reply that has them.

    `model`: None asks the LM that DSPy is configured with, and tells DSPy's trace. `turns`: messages before the input. `told`: the
    inputs as a demonstration tells them, where not as they are shown.
    Raises WireError, whose `reply` is the one that cannot be read, ModelError where there is none, and BudgetExceeded.
    """
    shown = [{name: demo[name] for name in codec.signature.fields if name in demo} for demo in predictor.demos]
    prefix = [Message(item["role"], item["content"]) for item in FORMAT.prefix(codec.signature, shown)]
    user = FORMAT.format_user_message_content(codec.signature, dict(inputs), main_request=True)
    told_inputs = dict(inputs if told is None else told)
    request = Request(
        (*prefix, *turns, Message("user", user)),
        role=codec.role,
        codec=codec,
        examples=len(prefix) - 1,
        prompted=Prompted(codec.predictor, lambda: told_inputs, codec.read),
    )
    debug_text("prompt", *[message.content for message in request.messages])
    reply = await (model or model_of(predictor.lm or dspy.settings.lm)).complete(request)
    debug_text("reply", reply.text)
    try:
        fields = codec.read(reply)
    except WireError as error:
        error.reply = reply
        raise
    if model is None and dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, dict(inputs), dspy.Prediction(**fields)))
    return fields, reply


@lru_cache(maxsize=8)
def model_of(lm: Any) -> DspyModel:
    """Return an LM as a Model. Raises ValueError for None."""
    if lm is None:
        raise ValueError("no LM is configured: dspy.configure(lm=...)")
    return DspyModel(lm)


# --- DSPy's predictors as a program ---


def prompt_of(signature: Any) -> Prompt:
    """Return the state of a predictor with this signature."""
    inputs = {name: info.annotation for name, info in signature.input_fields.items()}
    return Prompt(signature.instructions, inputs, outputs_of(signature))


def set_prompt(predictor: Any, prompt: Prompt) -> None:
    """Give a predictor other instructions and demonstrations; the fields of its signature stay."""
    predictor.signature = with_instructions(predictor.signature, prompt.instructions)
    predictor.demos = [dspy.Example(dict(demo)) for demo in prompt.demos]


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
        parts: list[object] = [lm15.TextPart(reply.text)]
        parts += [lm15.ToolCallPart(id=call.id, name=call.name, input=arguments_object(call.arguments)) for call in reply.calls]
        finish = "tool_call" if reply.calls and reply.finish_reason != "length" else LM15_FINISH[reply.finish_reason]
        usage = lm15.Usage()
        if (counts := reply.usage) is not None:
            usage = lm15.Usage(counts.input_tokens, counts.output_tokens, cache_read_tokens=counts.cached_tokens)
        message = lm15.Message.assistant(parts)
        return lm15.Response(id=None, model=request.model, message=message, finish_reason=finish, usage=usage)


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
    choice, fields = config.tool_choice, config.response_format or {}
    chosen = None if choice is None else str(choice.allowed[0] if len(choice.allowed) == 1 else choice.mode)
    schema = fields.get("json_schema", fields).get("schema")  # OpenAI's form has it one level deeper than lm15's
    converted = Request(tuple(messages), tools, chosen, schema, sampling, choice is None or choice.parallel is not False)
    asked = CURRENT_REQUEST.get(converted)
    return replace(
        converted, role=asked.role, scope=asked.scope, codec=asked.codec, examples=asked.examples, prompted=asked.prompted
    )


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
