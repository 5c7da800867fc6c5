"""DSPy's chat format, rendered and parsed as DSPy does, and codecs in this format."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import EnumMeta
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, Union, cast, get_origin

import dspy
from dspy.adapters.chat_adapter import field_header_pattern
from dspy.adapters.utils import parse_value, serialize_for_json
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, TypeAdapter

from whichloop.protocol.chat import Reply
from whichloop.protocol.moves import Inexpressible, Move, Role, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import one_line

from .requests import MAX_NESTED, nesting

logger = logger_of("whichloop.dspy")

Fields = dict[str, Any]

MAX_REPAIRED = 10_000
"""Characters of a reply that DSPy's lenient reading is tried on: its time grows with the square of the length."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_LINE_BREAKS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


class ChatFormat(dspy.ChatAdapter):
    """DSPy's ChatAdapter byte for byte; what does not change between calls is rendered once.

    A reply that does not parse is an error, never a second call in another format. Three things differ: a value that is nested too
    deep is such an error too, the markers of DSPy's custom types in an input stay text, and a demonstration may have any list in a
    text field.
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
        parts = [f"[[ ## {name} ## ]]\n{inputs[name]}" for name in inputs_of(signature) if name in inputs]
        if main_request:
            parts.append(_output_requirements(signature))
        # DSPy's join begins and ends with the empty prefix and suffix, which `strip` removes.
        return "\n\n".join(parts).strip()

    def format_demos(self, signature: Any, demos: Sequence[Fields]) -> list[Fields]:
        return cast(list[Fields], super().format_demos(signature, [_tellable(signature, demo) for demo in demos]))

    def prefix(self, signature: Any, demos: Sequence[Fields]) -> list[Fields]:
        """Return the messages before the current input: system message and demonstrations."""
        system = {"role": "system", "content": _system_message(signature)}
        return [system, *self.format_demos(signature, demos)] if demos else [system]

    def parse(self, signature: Any, completion: str) -> Fields:
        """Return the output fields of a completion. Raises AdapterParseError with DSPy's words."""
        try:
            fields = _read_sections(signature, completion)
            if fields is not None:
                return fields
            if problem := _unrepairable(completion):
                raise AdapterParseError("ChatAdapter", signature, completion, problem)
            return cast(Fields, super().parse(signature, completion))
        except (RecursionError, MemoryError) as error:  # json's limit, and that of Python's own parser
            raise AdapterParseError("ChatAdapter", signature, completion, "A value is nested too deep to be read.") from error
        except AdapterParseError:
            raise
        except Exception as error:  # json_repair asserts what a reply need not keep to
            raise AdapterParseError("ChatAdapter", signature, completion, "A value cannot be read, and not be repaired.") from error


def _tellable(signature: Any, demo: Fields) -> Fields:
    """Return a demonstration with lists in text fields as JSON: DSPy numbers texts, and fails on anything else."""
    lists = {
        name: json.dumps(serialize_for_json(demo[name]), ensure_ascii=False)
        for name, info in signature.fields.items()
        if info.annotation is str and isinstance(demo.get(name), list) and not all(isinstance(item, str) for item in demo[name])
    }
    return {**dict(demo.items()), **lists} if lists else demo


def _unrepairable(text: str) -> str:
    """Return why DSPy's lenient reading is not tried on a text, in words for the model; empty if it is."""
    if len(text) > MAX_REPAIRED:
        return "The reply is too long to be repaired."
    return "A value is nested too deep to be read." if nesting(text) > MAX_NESTED else ""


def _read_sections(signature: Any, completion: str) -> Fields | None:
    """Return what ChatAdapter.parse returns for a reply that needs no repair; None for any other reply."""
    outputs = outputs_of(signature)
    texts: dict[str, str] = {}
    name, lines = "", list[str]()
    for line in [*completion.splitlines(), "[[ ## completed ## ]]"]:
        header = field_header_pattern.match(line.strip()) if "[[ ##" in line else None
        if header is None:
            lines.append(line)
            continue
        if name in outputs and name not in texts:
            texts[name] = "\n".join(lines).strip()
        name = header.group(1)
        rest = line[header.end() :].strip()  # of the line as it is, as DSPy has it
        lines = [rest] if rest else []
    if len(texts) != len(outputs):
        return None
    fields: Fields = {}
    for name, annotation in outputs.items():
        try:
            fields[name] = _read_value(texts[name], annotation)
        except ValueError:
            return None
    return fields


def _read_value(text: str, annotation: Any) -> Any:
    if annotation is str:
        return text
    reads = _adapter(annotation)
    if reads is not None:
        try:
            value = json.loads(text)
        except ValueError:
            value = ""
        if value != "":
            return reads.validate_python(value)
    if _unrepairable(text):
        return TypeAdapter(annotation).validate_python(text)  # what DSPy does with a text that it cannot repair
    try:
        return parse_value(text, annotation)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # json_repair asserts what a reply need not keep to
        raise ValueError(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """Return the adapter that DSPy would make for each value of this type; None if it reads the type in another way."""
    if isinstance(annotation, EnumMeta) or get_origin(annotation) in (Literal, Union, UnionType):
        return None
    return TypeAdapter(annotation)


@lru_cache(maxsize=512)
def inputs_of(signature: Any) -> tuple[str, ...]:
    return tuple(signature.input_fields)


@lru_cache(maxsize=512)
def outputs_of(signature: Any) -> dict[str, Any]:
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
    """Return the signature with other instructions; the same object for equal arguments, so that it is rendered once."""
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
    predictor: str

    def __init__(self, signature: Any) -> None:
        self.signature = signature

    @abstractmethod
    def fields(self, move: Move) -> Fields:
        """Return the output fields that state a move. Raises Inexpressible, and ValueError for values of other types."""

    @abstractmethod
    def move(self, fields: Fields) -> Move:
        """Return the move that output fields state."""

    def render(self, move: Move) -> Reply:
        try:
            fields = self.fields(move)
            texts = [f"[[ ## {name} ## ]]\n{_written(fields[name], kind)}" for name, kind in outputs_of(self.signature).items()]
            reply = Reply("\n\n".join([*texts, "[[ ## completed ## ]]\n"]))
            same = self.parse(reply) == move
        except (WireError, TypeError, ValueError, LookupError, RecursionError) as error:
            raise Inexpressible(one_line(str(error))) from None
        if not same:
            raise Inexpressible("a move that the format does not give back as it was")
        return reply

    def parse(self, reply: Reply) -> Move:
        return self.move(self.read(reply))

    def read(self, reply: Reply) -> Fields:
        """Return the output fields of a reply. Raises WireError."""
        try:
            return FORMAT.parse(self.signature, reply.text)
        except AdapterParseError as error:
            raise WireError(complaint(error, self.signature)) from None


def _written(value: Any, annotation: Any) -> str:
    if annotation is str:
        return str(value)
    text = _ENCODER.encode(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)
    return text if text.isascii() else text.translate(_LINE_BREAKS)


_BAD_FIELD = re.compile(r"Failed to parse field (\w+) with value (.*) from the LM response\. Error message: ", re.DOTALL)
_EMPTY_REPLY = "The LM returned an empty"
_SHOWN_CHARS = 200
_KINDS = {dict[str, Any]: "a JSON object", list[Any]: "a JSON array", float: "a number", int: "an integer", bool: "True or False"}


def complaint(error: AdapterParseError, signature: Any) -> str:
    """Say what was wrong in words that a model can act on; the same for a reply that came through a predictor."""
    bad = _BAD_FIELD.match(error.message)
    if bad is not None:
        name, value = bad.groups()
        kind = _kind(outputs_of(signature)[name])
        return f"Failed to parse field {name}: it must be {kind}, not: {value[:_SHOWN_CHARS]}"
    if error.parsed_result is None and not error.message.startswith(_EMPTY_REPLY):
        return str(error.message).splitlines()[0]
    missing = [name for name in outputs_of(signature) if name not in (error.parsed_result or {})]
    headers = ", ".join(f"[[ ## {name} ## ]]" for name in outputs_of(signature))
    return f"The reply lacks {', '.join(missing)}. It must have the sections {headers}"


def _kind(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        needed = ", ".join(name for name, info in annotation.model_fields.items() if info.is_required())
        return f"a JSON object with at least {needed}, each of its own type"
    return _KINDS.get(annotation, "a JSON value")


def debug_text(what: str, *texts: str) -> None:
    """Write a prompt or reply to stderr if `DSPY_DEBUG=true` (row S2-12 of docs/conformance.md)."""
    if os.environ.get("DSPY_DEBUG", "").lower() != "true":
        return
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    logger.debug("%s:\n%s", what, "\n\n".join(texts))
