"""The signatures and wire formats of design 2, in DSPy's chat format: react's, whose instructions list the tools, and extract's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import dspy

from whichloop.dspy_seam import Fields, SignatureCodec, with_instructions
from whichloop.protocol import Act, Answer, Inexpressible, Move, Role, Tool, ToolCall
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.model import schema_text, shown_parameters
from whichloop.protocol.wire import section

FINISH = "finish"


class ReactStep(dspy.Signature):
    """Work towards an answer to `query` by calling tools, one per turn.

    `trajectory` holds every turn so far: your thought, the tool you chose, its arguments and what came back. State your next
    thought, then the name of one tool and its arguments as a JSON object. Choose `finish` as soon as the trajectory holds all
    that the answer needs; the answer itself is drawn from the trajectory afterwards."""

    query: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    next_thought: str = dspy.OutputField()
    next_tool_name: str = dspy.OutputField()
    next_tool_args: dict[str, Any] = dspy.OutputField()


class ExtractAnswer(dspy.Signature):
    """State the answer to `query` that follows from `trajectory`: an agent's thoughts, tool calls and observations."""

    query: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    reasoning: str = dspy.OutputField()


class ReactCodec(SignatureCodec):
    """The fields next_thought, next_tool_name and next_tool_args. `finish` ends the run.

    Where no extract call follows, the arguments of `finish` may hold the answer.
    """

    role = Role.DECIDE
    predictor = "react"

    def __init__(self, signature: Any, *, extract: bool = True) -> None:
        super().__init__(signature)
        self.extract = extract
        self.name = self.grows_as = "react_extract.react" if extract else "react_extract.react_only"

    def fields(self, move: Move) -> Fields:
        if isinstance(move, Act) and len(move.calls) == 1 and move.calls[0].name != FINISH:
            name, args = move.calls[0].name, dict(move.calls[0].arguments)
        elif isinstance(move, Answer) and move.confidence is None and not (self.extract and move.value is not None):
            name, args = FINISH, {} if move.value is None else {"answer": move.value}
        else:
            raise Inexpressible("it takes an Act with one call, or an Answer without confidence, and without a value for extract")
        return {"next_thought": move.thought, "next_tool_name": name, "next_tool_args": args}

    def move(self, fields: Fields) -> Act | Answer:
        thought, name, args = fields["next_thought"], fields["next_tool_name"], fields["next_tool_args"]
        if name == FINISH:
            return Answer(thought, None if self.extract else args.get("answer"))
        return Act(thought, (ToolCall(name, args),))


class ExtractCodec(SignatureCodec):
    """reasoning, then `answer`, or one field for each property of the query's schema."""

    name = "react_extract.extract"
    role = Role.ANSWER
    max_calls = 0
    predictor = "extract"

    def __init__(self, signature: Any, properties: Mapping[str, str]) -> None:
        """`properties`: property of the schema → field of the signature; empty for the one field `answer`."""
        super().__init__(signature)
        self.properties = properties

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Answer) or move.confidence is not None:
            raise Inexpressible("extract states an answer, without confidence")
        values = {field: move.value[name] for name, field in self.properties.items()} or {"answer": move.value}
        return {"reasoning": move.thought} | values

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return "" if self.properties else section(text, "answer")

    def move(self, fields: Fields) -> Answer:
        value = {name: fields[field] for name, field in self.properties.items()} if self.properties else fields["answer"]
        return Answer(fields["reasoning"], value)


_TYPES: dict[str, Any] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


@lru_cache(maxsize=256)
def extract_codec(instructions: str, schema: str) -> ExtractCodec:
    """Return the codec for an answer of this schema. `schema`: canonical JSON of the query's schema, or "null"."""
    answer = json.loads(schema)
    properties: dict[str, Any] = {}
    if isinstance(answer, dict) and answer.get("type") == "object":
        properties = answer.get("properties", {})
    names = _field_names(properties)
    signature: Any = with_instructions(ExtractAnswer, instructions)
    for name, item in (properties or {"answer": {"type": "string"} if answer is None else answer}).items():
        item_schema = item if isinstance(item, dict) else {}  # true and false are schemas too
        output = dspy.OutputField(desc=_description(name, item_schema, answer))
        kind = item_schema.get("type")
        signature = signature.append(names.get(name, name), output, _TYPES.get(kind, Any) if isinstance(kind, str) else Any)
    return ExtractCodec(signature, names)


def _description(name: str, item: Mapping[str, Any], answer: Any) -> str:
    """Return what the prompt says of a field; the schema of what has fields itself, which no type of the signature shows."""
    text = str(item.get("description") or item.get("title") or name)
    schema_text = canonical_json(item)
    if '"$ref"' not in schema_text and '"properties"' not in schema_text:
        return text
    whole = {**item, "$defs": answer["$defs"]} if isinstance(answer, dict) and "$defs" in answer else item
    return f"{text}; follows this JSON schema: {canonical_json(whole)}"


def _field_names(properties: Iterable[str]) -> dict[str, str]:
    """Map each property to a field of the signature: a word that means nothing else to the signature or to pydantic."""
    names: dict[str, str] = {}
    taken = {"reasoning", "query", "trajectory"}
    for name in properties:
        word = re.sub(r"\W", "_", name, flags=re.ASCII)
        if word in taken or not word[:1].isalpha() or word.startswith("model_") or hasattr(dspy.Signature, word):
            word = f"answer_{word}"
        while word in taken:
            word += "_"
        taken.add(word)
        names[name] = word
    return names


def react_codec(instructions: str, *, extract: bool) -> ReactCodec:
    """Return the codec of a React call. `extract`: another call states the answer."""
    return ReactCodec(with_instructions(ReactStep, instructions), extract=extract)


def instructions_with_tools(instructions: str, tools: Iterable[Tool], *, extract: bool = True) -> str:
    """Return the React instructions with the list of tools; `finish` is always the last (rows S2-3, S2-4, S2-14)."""
    lines = [f"- {tool.name}: {tool.description} Arguments: {schema_text(shown_parameters(tool.parameters))}" for tool in tools]
    done = (
        "finish: takes no arguments; the trajectory holds all that the answer needs."
        if extract
        else 'finish: ends the run; give your answer as {"answer": ...}.'
    )
    return "\n".join([instructions, "", "Tools:", *lines, f"- {done}"])
