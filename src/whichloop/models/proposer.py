"""The scripted proposal model: what an optimizer asks for better instructions, offline and the same every time.

It reads any request of DSPy's chat and JSON formats and gives every output field a value. What it proposes comes from `HINTS`, a
public table: where the request tells of failures, the hints that help against them; else a few drawn from the seed, useless ones
among them, as a real model would that guesses. What an instruction says so far is kept.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whichloop.protocol import Capabilities, Reply, Request
from whichloop.protocol.json_text import sha256, unit
from whichloop.protocol.model import estimate_input, estimate_usage

from .scripted_calls import StreamsInPieces
from .weaknesses import CURES, day_first, hundredth

HINTS: Mapping[str, str] = {
    **CURES,
    "think": "Think step by step.",
    "reread": "Read the question twice before you begin.",
    "brief": "Be brief and to the point.",
    "check": "Check your work before you go on.",
}
"""Name → what may be proposed: a hint for each kind of weakness, and four that help against nothing."""


class ScriptedProposer(StreamsInPieces):
    """A proposal or reflection model. Equal seed and equal requests before it give equal replies. For any number of threads."""

    name = "scripted-proposer"
    capabilities = Capabilities(native_tools=False, tool_choice=False, parallel_calls=False)

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._times_sent: Counter[str] = Counter()
        self._lock = threading.Lock()

    async def complete(self, request: Request) -> Reply:
        """Return the proposal: the hints against the failures that the request tells of, else some that are drawn."""
        asked = read_proposal_request(request)
        new = [name for name, hint in HINTS.items() if hint not in (asked.current or asked.text)] or list(HINTS)
        telling = [name for name in symptoms(asked.text) if name in new]
        key = (self.seed, *self._occurrence(request))
        drawn = sorted(new, key=lambda name: unit(*key, name))[: 2 + (unit(*key, "count") < 0.5)]
        text = proposal(asked, telling or [name for name in HINTS if name in drawn])
        return Reply(text, usage=estimate_usage(estimate_input(request), Reply(text)))

    def skip(self, request: Request) -> None:
        """Count a request that was answered from elsewhere, such as the log of a run that goes on: the next like it is answered
        as if this model had been asked every time.
        """
        self._occurrence(request)

    def _occurrence(self, request: Request) -> tuple[str, int]:
        request_digest = sha256(repr(request.as_dict()))  # JSON cannot express everything that a request may hold
        with self._lock:
            self._times_sent[request_digest] += 1
            return request_digest, self._times_sent[request_digest] - 1


# --- what is asked ---


class ProposalRequest(NamedTuple):
    """A request as a proposal model reads it."""

    form: str
    """`chat`, `json` or `text`."""
    outputs: Mapping[str, str]
    """Output field → its type as DSPy writes it."""
    inputs: Mapping[str, str]
    current: str
    """The instructions to be improved; empty where there are none."""
    text: str
    """All that the request tells of the case at hand, with JSON's escapes taken off."""


_CURRENT = re.compile(r"(?:current_|basic_)instruction|(?:original_)?instructions?")
"""Names of the input field that has the instructions to be improved."""
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(r"^\d+\. `(\w+)` \(([^\n]*?)\):", re.MULTILINE)
_ATTEMPT = re.compile(r"^\[\d+\] «(?:««\n)?\s*Instruction #\d+: (.*?)»(?:»»)?$", re.MULTILINE | re.DOTALL)


def read_proposal_request(request: Request) -> ProposalRequest:
    """Read what a request wants filled in, and what it tells."""
    system = "\n".join(message.content for message in request.messages if message.role == "system")
    rest = [message.content for message in request.messages if message.role != "system"]
    body = rest[-1] if rest else ""
    head, _, listed = system.partition("Your output fields are:")
    fields, _, structure = listed.partition("All interactions will be structured")
    outputs = dict(_FIELDS.findall(fields))
    form = "text" if not outputs else "chat" if "[[ ## completed ## ]]" in structure else "json"
    inputs = _inputs(body, [name for name, _ in _FIELDS.findall(head)]) if listed else {}
    attempts = _ATTEMPT.findall(inputs.get("attempted_instructions", ""))  # in the order of their scores
    fenced = [] if inputs else _FENCED.findall(body)
    named = [text for name, text in inputs.items() if _CURRENT.fullmatch(name)]
    current = re.sub(r"^    ", "", attempts[-1], flags=re.MULTILINE) if attempts else [*named, *fenced, ""][0]
    text = re.sub(r'\\+"', '"', re.sub(r"\\+n", "\n", "\n".join(rest)))
    return ProposalRequest(form, outputs, inputs, current.strip(), text)


def _inputs(body: str, names: Sequence[str]) -> dict[str, str]:
    """Return the input fields of a user's message; each stands behind its name, in order."""
    found, at = {}, 0
    body = body.rpartition("\n\nRespond with ")[0] or body
    marks = [(name, f"[[ ## {name} ## ]]\n") for name in names]
    for place, (name, mark) in enumerate(marks):
        start = body.find(mark, at)
        if start >= 0:
            at = start + len(mark)
            ends = [end for _, other in marks[place + 1 :] if (end := body.find(other, at)) >= 0]
            found[name] = body[at : min(ends, default=len(body))].strip()
    return found


# --- what is proposed ---


def symptoms(text: str) -> tuple[str, ...]:
    """Return the kinds of weakness that the feedback in a text tells of, in the order of `CURES`."""
    kinds = {kind for was, meant in _arguments(text) for kind in _difference(was, meant)}
    if _NEVER_MADE.search(text):
        kinds.add("step")
    for found in _ANSWERED.finditer(text):  # an answer may be as long, and as repetitive, as a model makes it
        if re.search(r"\bthousand\b", found[1].rpartition(", expected ")[0]):
            kinds.add("answer")
    return tuple(kind for kind in CURES if kind in kinds)


_ARGUMENT = re.compile(r"\bArgument [^\n]{1,200}? of [^\n]{1,200}? was ")
_NEVER_MADE = re.compile(r"\bThe plan's call [^\n]* was never made\b")
_ANSWERED = re.compile(r"\bThe answer was ([^\n]*)")


def _arguments(text: str) -> Iterator[tuple[Any, Any]]:
    decoder, between = json.JSONDecoder(), "; the plan has "
    for match in _ARGUMENT.finditer(text):
        with contextlib.suppress(ValueError, RecursionError):
            was, end = decoder.raw_decode(text, match.end())
            if text.startswith(between, end):
                yield was, decoder.raw_decode(text, end + len(between))[0]


def _difference(was: Any, planned: Any) -> Iterator[str]:
    """Yield the kinds of weakness that made one value of another."""
    if isinstance(was, dict) and isinstance(planned, dict):
        for key in was.keys() & planned.keys():
            yield from _difference(was[key], planned[key])
    elif isinstance(was, list) and isinstance(planned, list):
        for one, other in zip(was, planned, strict=False):
            yield from _difference(one, other)
    elif was != planned and isinstance(planned, str) and was == day_first(planned):
        yield "date"
    elif was != planned and not isinstance(was, bool) and was in (hundredth(planned), hundredth(planned, whole=True)):
        yield "unit"


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


def proposal(request: ProposalRequest, names: Sequence[str]) -> str:
    """Return the reply that proposes these hints, in the form that the request asks for."""
    hints = "\n".join(HINTS[name] for name in names)
    instruction = "\n\n".join(filter(None, [request.current, hints]))

    def value(name: str, kind: str) -> Any:
        if kind == "dict[str, str]":
            return dict.fromkeys(re.findall(r'"([^"]+)"', request.inputs.get("module_names", "")), hints)
        if kind == "list[str]":
            return [HINTS[hint] for hint in names]
        if name.startswith("shortened"):
            return request.current or hints
        if re.search(r"(?:instructions?|prompt)\Z", name):
            return instruction
        if re.search(r"rule|advice|tip|hint|feedback|guidance|lesson", name):
            return hints
        return SENTENCES.get(name, f"This is what there is to say about {name.replace('_', ' ')}.")

    if request.form == "text":
        return f"```\n{instruction}\n```"
    values = {name: value(name, kind) for name, kind in request.outputs.items()}
    if request.form == "json":
        return json.dumps(values, ensure_ascii=False)
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{text}" for name, text in texts.items()), "[[ ## completed ## ]]"])
