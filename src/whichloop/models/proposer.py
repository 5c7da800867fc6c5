"""The scripted proposal model: what an optimizer asks for better instructions, offline and the same every time.

It reads any request of DSPy's (its chat, JSON or XML format) and gives every output field a value that fits. What it proposes comes
from `HINTS`, a public table: where the request tells of failures, the hints that help against them; else a few drawn from the
seed, useless ones among them, as a real model would that guesses. What an instruction says so far is kept.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.protocol import Capabilities, Reply, Request
from whichloop.protocol.digest import sha256, unit
from whichloop.protocol.json_text import Json
from whichloop.protocol.tokens import estimate_input, estimate_usage

from .filling import Unfillable, least
from .scripted_calls import StreamsInPieces
from .weaknesses import CURES, is_day_first, is_hundredth

HINTS: Mapping[str, str] = {kind: cure.hint for kind, cure in CURES.items()} | {
    "think": "Think step by step.",
    "reread": "Read the question twice before you begin.",
    "brief": "Be brief and to the point.",
    "check": "Check your work before you go on.",
}
"""Name → what may be proposed: a hint for each kind of weakness, and four that help against nothing."""

MIN = 2
"""Hints that are drawn where no failure is told; one more in half of the draws."""


class ScriptedProposer(StreamsInPieces):
    """A proposal or reflection model. Equal seed and equal requests before it give equal replies. For any number of threads."""

    name = "scripted-proposer"
    capabilities = Capabilities(native_tools=False, tool_choice=False, parallel_calls=False)

    def __init__(self, seed: int = 0, *, garbled: bool = False) -> None:
        """`garbled`: every reply is unusable, as from a model that does not keep to the format."""
        self.seed = seed
        self.garbled = garbled
        self._times_sent: Counter[str] = Counter()
        self._lock = threading.Lock()

    async def complete(self, request: Request) -> Reply:
        """Return the proposal; it never raises."""
        text = GARBLED if self.garbled else self._answer(request)
        return Reply(text, usage=estimate_usage(estimate_input(request), Reply(text)))

    def skip(self, request: Request) -> None:
        """Count a request that was answered from elsewhere, such as the log of a run that goes on: the next like it is answered
        as if this model had been asked every time.
        """
        self._occurrence(request)

    def _answer(self, request: Request) -> str:
        proposal_request = read_proposal_request(request)
        return _rendered(
            proposal_request, _Proposal(proposal_request, hints_for(proposal_request, (self.seed, *self._occurrence(request))))
        )

    def _occurrence(self, request: Request) -> tuple[str, int]:
        """Return a key of the request, and how often it has been sent before."""
        request_digest = sha256(repr(request.as_dict()))  # JSON cannot express everything that a request may hold
        with self._lock:
            count = self._times_sent[request_digest]
            self._times_sent[request_digest] += 1
        return request_digest, count


GARBLED = "Certainly! I have thought about this at length, and the instruction could be better in several ways."


# --- what is asked ---


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """A request as a proposal model reads it."""

    form: Literal["chat", "json", "xml", "text"]
    outputs: Mapping[str, str]
    """Output field → its type, as DSPy writes it."""
    inputs: Mapping[str, str]
    text: str
    """All that the request tells of the case at hand, with JSON's escapes taken off."""
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Output field → JSON schema, where the request has one."""

    @property
    def current(self) -> str:
        """The instructions to be improved; empty where there are none."""
        if "attempted_instructions" in self.inputs:
            return _best_attempt(self.inputs["attempted_instructions"])
        for name in _CURRENT:
            if name in self.inputs:
                return self.inputs[name]
        fenced = _FENCED.search(self.inputs.get("", ""))
        return "" if fenced is None else fenced.group(1).strip()


_CURRENT = (
    "current_instruction",
    "basic_instruction",
    "original_instruction",
    "original_instructions",
    "instruction",
    "instructions",
)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(r"^\d+\. `(\w+)` \(([^\n]*?)\):", re.MULTILINE)
_ATTEMPT = re.compile(r"^\[\d+\] «(?:««\n)?\s*Instruction #\d+: (.*?)»(?:»»)?$", re.MULTILINE | re.DOTALL)


def read_proposal_request(request: Request) -> ProposalRequest:
    """Read what a request wants filled in, and what it tells."""
    system = "\n".join(message.content for message in request.messages if message.role == "system")
    rest = [message.content for message in request.messages if message.role != "system"]
    body = rest[-1] if rest else ""
    case_text = _unescaped("\n".join(rest))
    head, separator, listed = system.partition("Your output fields are:")
    structure = listed.partition("All interactions will be structured")[2]
    if separator:
        outputs = dict(_FIELDS.findall(listed.partition("All interactions will be structured")[0]))
        form = _form(structure)
        inputs = _inputs(body, [name for name, _ in _FIELDS.findall(head)], form)
        return ProposalRequest(form, outputs, inputs, case_text, _schemas(structure, outputs))
    properties = (request.response_schema or {}).get("properties")
    if isinstance(properties, Mapping) and properties:
        schemas = {str(name): item for name, item in properties.items() if isinstance(item, Mapping)}
        kinds = {name: "str" if item.get("type") == "string" else "" for name, item in schemas.items()}
        return ProposalRequest("json", kinds, {"": body}, case_text, schemas)
    return ProposalRequest("text", {}, {"": body}, case_text)


def _form(structure: str) -> Literal["chat", "json", "xml"]:
    if "Outputs will be a JSON object" in structure:
        return "json"
    return "chat" if "[[ ## completed ## ]]" in structure else "xml"


def _inputs(body: str, names: list[str], form: str) -> dict[str, str]:
    """Return the input fields of a user's message; each stands behind its name, in order."""
    marks: list[tuple[str, int, int]] = []
    at = 0
    for name in names:
        mark = f"<{name}>\n" if form == "xml" else f"[[ ## {name} ## ]]\n"
        start = body.find(mark, at)
        if start >= 0:
            at = start + len(mark)
            marks.append((name, start, at))
    end = body.rfind("\n\nRespond with ")
    ends = [*(start for _, start, _ in marks[1:]), len(body) if end < 0 else end]
    return {
        name: body[start:end].strip().removesuffix(f"</{name}>").strip() for (name, _, start), end in zip(marks, ends, strict=False)
    }


def _schemas(structure: str, outputs: Mapping[str, str]) -> dict[str, Mapping[str, Json]]:
    """Return the schemas that a format gives for fields that are not plain text."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for text in (structure, _unescaped(structure)):
        for name in outputs:
            note = re.search(rf"\{{{name}\}} +# note: the value you produce must adhere to the JSON schema: (?=\{{)", text)
            if note is None:
                continue
            try:
                schema, _ = json.JSONDecoder().raw_decode(text, note.end())
            except (ValueError, RecursionError):
                continue
            schemas[name] = schema
    return schemas


def _best_attempt(text: str) -> str:
    """Return the last attempt: they stand in the order of their scores."""
    attempts = _ATTEMPT.findall(text)
    return re.sub(r"^    ", "", attempts[-1], flags=re.MULTILINE).strip() if attempts else ""


def _unescaped(text: str) -> str:
    return re.sub(r'\\+"', '"', re.sub(r"\\+n", "\n", text))


# --- what is proposed ---


def hints_for(request: ProposalRequest, key: tuple[object, ...]) -> tuple[str, ...]:
    """Return names of hints: those against the failures in the request that are not there already, else some drawn by the key."""
    text_so_far = request.current or request.text
    new = [name for name, hint in HINTS.items() if hint not in text_so_far] or list(HINTS)
    telling = [name for name in symptoms(request.text) if name in new]
    if telling:
        return tuple(telling)
    count = MIN + (unit(*key, "count") < 0.5)
    drawn = sorted(new, key=lambda name: unit(*key, name))[:count]
    return tuple(name for name in HINTS if name in drawn)


def symptoms(text: str) -> tuple[str, ...]:
    """Return the kinds of weakness that the feedback in a text tells of, in the order of `CURES`."""
    kinds = {kind for was, meant in _arguments(text) for kind in _difference(was, meant)}
    if _NEVER_MADE.search(text):
        kinds.add("step")
    if any(_is_of_thousands(match.group(1)) for match in _ANSWERED.finditer(text)):
        kinds.add("answer")
    return tuple(kind for kind in CURES if kind in kinds)


_ARGUMENT = re.compile(r"\bArgument [^\n]{1,200}? of [^\n]{1,200}? was ")
_THE_PLAN_HAS = "; the plan has "
_NEVER_MADE = re.compile(r"\bThe plan's call [^\n]* was never made\b")
_ANSWERED = re.compile(r"\bThe answer was ([^\n]*)")
_THOUSAND = re.compile(r"\bthousand\b")
_DECODER = json.JSONDecoder()


def _is_of_thousands(line: str) -> bool:
    """Whether a line says `thousand` before what was expected. It is read in two steps, each of one
    pass: an answer may be as long, and as repetitive, as a model makes it."""
    answered, separator, _ = line.rpartition(", expected ")
    return bool(separator) and _THOUSAND.search(answered) is not None


def _arguments(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield what arguments were, and what was planned."""
    for match in _ARGUMENT.finditer(text):
        try:
            was, end = _DECODER.raw_decode(text, match.end())
            if text.startswith(_THE_PLAN_HAS, end):
                yield was, _DECODER.raw_decode(text, end + len(_THE_PLAN_HAS))[0]
        except (ValueError, RecursionError):
            continue


def _difference(was: object, planned: object) -> Iterator[str]:
    """Yield the kinds of weakness that made one value of another."""
    pairs = [(was, planned)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            pairs += [(one[key], other[key]) for key in one.keys() & other.keys()]
        elif isinstance(one, list) and isinstance(other, list):
            pairs += list(zip(one, other, strict=False))
        elif is_day_first(one, other):
            yield "date"
        elif is_hundredth(one, other):
            yield "unit"


@dataclass(frozen=True, slots=True)
class _Proposal:
    """Values for output fields."""

    request: ProposalRequest
    names: tuple[str, ...]
    """Names of the hints."""

    @property
    def hints(self) -> str:
        return "\n".join(HINTS[name] for name in self.names)

    @property
    def instruction(self) -> str:
        """The current instructions and the hints."""
        return "\n\n".join(filter(None, [self.request.current, self.hints]))

    def value(self, name: str, kind: str) -> Any:
        """Return the value for an output field of this name and type."""
        if kind == "str":
            return self._text(name)
        if kind.startswith("dict[str, str]"):
            return dict.fromkeys(self._modules(), self.hints)
        if kind.startswith("list[str]"):
            return [HINTS[hint] for hint in self.names]
        choices = re.match(r"Literal\[(?:'([^']*)'|\"([^\"]*)\"|(-?\d+))", kind)
        if choices is not None:
            return next(choice for choice in choices.groups() if choice is not None)
        if kind in _MIN:
            return _MIN[kind]
        try:
            return least(self.request.schemas[name])
        except (KeyError, Unfillable):
            return self._text(name)

    def _text(self, name: str) -> str:
        if name.startswith("shortened"):
            return self.request.current or self.hints
        if _INSTRUCTIONS.search(name):
            return self.instruction
        if _HINTS_ALONE.search(name):
            return self.hints
        return SENTENCES.get(name, f"This is what there is to say about {name.replace('_', ' ')}.")

    def _modules(self) -> list[str]:
        """Return names of the modules that advice is asked for."""
        try:
            listed = json.loads(self.request.inputs.get("module_names", ""))
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return [name for name in listed if isinstance(name, str)]
        return re.findall(r"^Module (\S+)$", self.request.inputs.get("modules_defn", ""), re.MULTILINE)


SENTENCES: Mapping[str, str] = {
    "proposed_prefix_for_output_field": "Reply:",
    "reasoning": "I read what was asked, what was done, and what came of it.",
    "discussion": "The worse run differs from the better one in how it followed the instructions.",
    "observations": "The questions are to be answered with tools. Every one of them names the facts that it is about.",
    "summary": "Questions that are to be answered with tools.",
    "program_description": "The program answers questions by calling tools, one result after the other.",
    "module_description": "The module decides what is done next, from the question and the results so far.",
}
"""Output field → what it is filled with where nothing is proposed by it."""
_INSTRUCTIONS = re.compile(r"(?:instructions?|prompt)\Z")
_HINTS_ALONE = re.compile(r"rule|advice|tip|hint|feedback|guidance|lesson")
_MIN: Mapping[str, Any] = {"bool": True, "int": 1, "float": 1.0}


def _rendered(request: ProposalRequest, proposal: _Proposal) -> str:
    values = {name: proposal.value(name, kind) for name, kind in request.outputs.items()}
    if request.form == "text":
        return f"```\n{proposal.instruction}\n```"
    if request.form == "json":
        return json.dumps(values, ensure_ascii=False)
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    if request.form == "xml":
        return "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in texts.items())
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{text}" for name, text in texts.items()), "[[ ## completed ## ]]"])
