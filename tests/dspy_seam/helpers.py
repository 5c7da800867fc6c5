"""What the tests of the seam share: signatures, drawn prompts and completions, and a model that keeps its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import dspy
from hypothesis import strategies as st

from whichloop.loops.react_extract_codecs import ReactStep
from whichloop.protocol import Capabilities, Chunk, Reply, Request


class Wide(dspy.Signature):
    """Fields of many types.

    And instructions of two paragraphs."""

    query: str = dspy.InputField()
    notes: list[str] = dspy.InputField(desc="what is known")
    options: dict[str, Any] = dspy.InputField()
    title: str = dspy.OutputField(desc="short")
    count: int = dspy.OutputField()
    score: float = dspy.OutputField()
    sure: bool = dspy.OutputField()
    tags: list[Any] = dspy.OutputField()
    more: Any = dspy.OutputField()


class Extract(dspy.Signature):
    """State the answer."""

    query: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField()


SIGNATURES: list[Any] = [ReactStep, Extract, Wide]


class Answering:
    """A Model that answers from a list, then repeats the last answer; keeps the requests."""

    name = "answering/model"
    capabilities = Capabilities()

    def __init__(self, *answers: str | Reply | BaseException) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def sections(**fields: Any) -> str:
    """A reply in DSPy's chat format."""
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()), "[[ ## completed ## ]]\n"])


TEXT = st.one_of(
    st.text(max_size=12), st.sampled_from(["", " x ", "a\n\nb", "[[ ## query ## ]]", "  indented\n    more", "«»", "{}"])
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)

ITEMS = st.dictionaries(st.text(max_size=3), JSON, max_size=2) | st.lists(TEXT, max_size=3)
VALUES = TEXT | TEXT | st.none() | st.booleans() | st.integers() | st.floats() | ITEMS
SIGNATURE = st.sampled_from(SIGNATURES)


def some_fields(signature: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any part of a signature's fields, and now and then one that it does not have."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys([*signature.fields, "unknown"], VALUES))


def all_fields(signature: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict.fromkeys(signature.fields, VALUES))


HEADERS = st.sampled_from(
    [f"[[ ## {name} ## ]]" for signature in SIGNATURES for name in signature.fields] + ["[[ ## completed ## ]]"]
)
SCALARS = st.sampled_from(
    ["1", "1.5", "true", "True", "null", "[1]", '{"a": 1}', "{'a': 1}", '"x"', "{oops", "NaN", '{"a": "\\ud800"}', "1 2"]
)
LINES = st.tuples(st.sampled_from(["", "", "  ", "> "]), HEADERS, st.sampled_from(["", "\n", " ", "\n\n "]), SCALARS | TEXT).map(
    "".join
)


@st.composite
def completions(draw: st.DrawFn) -> tuple[Any, str]:
    """A signature and a completion: right, in disorder, cut, doubled, or anything at all."""
    signature = draw(SIGNATURE)
    if draw(st.booleans()):
        return signature, draw(st.one_of(TEXT, st.lists(LINES | TEXT, max_size=8).map("\n".join)))
    whole = sections(**{name: draw(SCALARS | TEXT) for name in draw(st.permutations(list(signature.output_fields)))})
    start, stop = sorted((draw(st.integers(0, 40)), draw(st.integers(0, len(whole)))))
    return signature, draw(st.sampled_from([whole, whole[start:stop], whole * 2, whole[:stop]]))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
