"""One entry for the calls of a DSPy-based loop: to any Model, or through the predictor if DSPy should see them."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError
from pydantic_core import to_jsonable_python

from whichloop.protocol import (
    Capabilities,
    Chunk,
    Message,
    Model,
    ModelError,
    Move,
    Program,
    Prompt,
    Prompted,
    Reply,
    Request,
    Usage,
    WireError,
)

from .chat_format import FORMAT, Fields, SignatureCodec, complaint, debug_text, is_debugged, outputs_of, with_instructions
from .errors import model_error


@dataclass(frozen=True, slots=True)
class _RequestDetails:
    """What a predictor's request carries besides its messages."""

    codec: SignatureCodec
    scope: str
    examples: int
    prompted: Prompted | None


CURRENT_REQUEST: ContextVar[_RequestDetails | None] = ContextVar("whichloop_request", default=None)


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
    is_shown = is_debugged()
    if is_shown:
        debug_text("prompt", *[message.content for message in request.messages])
    reply = await model.complete(request)
    if is_shown:
        debug_text("reply", reply.text)
    return Prediction(codec.read(reply), reply.usage)


def request_of(
    predictor: Any, fields: Mapping[str, str], codec: SignatureCodec, *, scope: str = "", turns: Sequence[Message] = ()
) -> Request:
    """Return what `ask` sends: system message, demonstrations, `turns` (further messages) and the input fields."""
    prefix = _prefix(codec.signature, predictor.demos)
    user = FORMAT.format_user_message_content(codec.signature, dict(fields), main_request=True)
    return Request(
        (*prefix, *turns, Message("user", user)),
        role=codec.role,
        scope=scope,
        codec=codec,
        examples=len(prefix) - 1,
        prompted=prompted_by(codec, fields),
    )


def prompted_by(codec: SignatureCodec, fields: Mapping[str, object]) -> Prompted | None:
    """Describe a request of the codec's predictor; None if the codec names none."""
    if not codec.predictor:
        return None
    inputs = dict(fields)
    return Prompted(codec.predictor, lambda: inputs, codec.read)


async def _ask_predictor(predictor: Any, fields: Fields, codec: SignatureCodec, scope: str) -> Prediction:
    examples = len(_prefix(codec.signature, predictor.demos)) - 1
    token = CURRENT_REQUEST.set(_RequestDetails(codec, scope, examples, prompted_by(codec, fields)))
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


@dataclass(frozen=True, slots=True)
class _RenderedPrefix:
    """The messages before the input: system message and demonstrations."""

    demos: tuple[Any, ...]
    """Kept alive, so that no other object gets their ids."""
    shown: list[Fields]
    """The fields that were rendered: a demonstration may be changed in place."""
    messages: tuple[Message, ...]


_PREFIXES: dict[tuple[Any, tuple[int, ...]], _RenderedPrefix] = {}
_MAX_PREFIXES = 64
"""A program under a teleprompter gets new ones with every call, each as large as its demonstrations."""


def _prefix(signature: Any, demos: Sequence[Any]) -> tuple[Message, ...]:
    """Return system message and demonstrations, rendered once per program."""
    key = (signature, tuple(map(id, demos)))
    shown_demos = [{name: demo[name] for name in signature.fields if name in demo} for demo in demos]
    rendered = _PREFIXES.get(key)
    if rendered is None or rendered.shown != shown_demos:
        if len(_PREFIXES) >= _MAX_PREFIXES:
            _PREFIXES.clear()
        messages = tuple(Message(item["role"], item["content"]) for item in FORMAT.prefix(signature, shown_demos))
        rendered = _PREFIXES[key] = _RenderedPrefix(tuple(demos), copy.deepcopy(shown_demos), messages)
    return rendered.messages


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
