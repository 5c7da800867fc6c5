"""A query: all that a loop may know of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .chat import Message, earlier_messages
from .files import Image

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from .schema import AnswerType

    AnswerT = TypeVarWithDefault("AnswerT", default=Any)
    """The type of the answer; Any of a query without a type, so that `Query` alone names one."""
else:
    AnswerT = TypeVar("AnswerT")  # at run time a default says nothing, and importing a loop needs the standard library only

InstanceT = TypeVar("InstanceT")
History = Iterable[Message | Mapping[str, Any]]
"""Messages, or dicts in OpenAI's chat format."""


class Parametrized(Generic[AnswerT]):
    """Base of classes that have a type parameter for type checkers only: at run time `Query[Bill]` is Query.

    Python 3.11 raises TypeError where an instance of a frozen dataclass with slots is made by its alias.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: object) -> type:
            return cls


@dataclass(frozen=True, slots=True, init=False)
class Query(Parametrized[AnswerT]):
    """All that a loop may know of a task. Gold answers, plans and scorers live elsewhere."""

    text: str
    context: str = ""
    """Material that belongs to the question, a passage or a policy; empty if there is none."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer; None if it is text."""
    history: tuple[Message, ...] | None = None
    """What was said before, in a conversation: `outcome.messages` of the turn before. None or empty: nothing."""
    images: tuple[Image, ...] = ()
    """Images that belong to the question, for the designs and models that take them."""
    answer_type: AnswerType | None = field(default=None, init=False, compare=False, repr=False)
    """The type that was given for a schema; the answer is an instance of it. None: a text, or a JSON value."""
    held_to: AnswerType | None = field(default=None, init=False, compare=False, repr=False)
    """The type that `problem` holds an answer to; unlike `answer_type`, the query that a design gets keeps it."""

    @overload
    def __init__(
        self: Query[Any],
        text: str,
        context: str = "",
        schema: Mapping[str, Any] | UnionType | None = None,
        *,
        history: History | None = None,
        images: Iterable[Image] = (),
    ) -> None: ...

    @overload
    def __init__(
        self: Query[InstanceT | None],
        text: str,
        context: str = "",
        schema: type[InstanceT] = ...,
        *,
        history: History | None = None,
        images: Iterable[Image] = (),
    ) -> None: ...

    def __init__(
        self,
        text: str,
        context: str = "",
        schema: Mapping[str, Any] | type | UnionType | None = None,
        *,
        history: History | None = None,
        images: Iterable[Image] = (),
    ) -> None:
        """`schema`: a JSON schema, or a type that has one: a pydantic model, a dataclass, a TypedDict, `list[int]`.

        With a type the answer is an instance of it, or None. `history`: the messages of earlier turns, as `outcome.messages` or
        dicts in OpenAI's chat format. Raises TypeError for a text or context that is no text, a type without a JSON schema, images
        that are none and a history that holds anything else, ValueError for a history that no provider would take.
        """
        given: dict[str, Any] = {"text": text, "context": context}
        for name, value in given.items():
            if not isinstance(value, str):
                raise TypeError(f"query: {name} must be a text, not {type(value).__name__}")
        answer_type = None
        if schema is not None and not isinstance(schema, Mapping):
            from .schema import AnswerType  # noqa: PLC0415  # loads pydantic: a typed answer may, the import of a loop must not

            answer_type = AnswerType(schema)
            schema = answer_type.json_schema
        all_images = tuple(images)
        for place, image in enumerate(all_images):
            if not isinstance(image, Image):
                raise TypeError(f"query: images[{place}] must be an Image, not {type(image).__name__}; Image.of(bytes or path)")
        put = object.__setattr__
        put(self, "text", text)
        put(self, "context", context)
        put(self, "schema", schema)
        put(self, "history", None if history is None else earlier_messages(history))
        put(self, "images", all_images)
        put(self, "answer_type", answer_type)
        put(self, "held_to", answer_type)

    @property
    def shows_images(self) -> bool:
        """Whether there are images, in the question or in the turns before it."""
        return bool(self.images) or any(message.images for message in self.history or ())

    @property
    def full_text(self) -> str:
        """Question and context in one text."""
        return f"{self.text}\n\nContext:\n{self.context}" if self.context else self.text

    @property
    def for_design(self) -> Query[Any]:
        """The same query as a design gets it: its answer is a JSON value, and its history stands in the model's requests."""
        if self.answer_type is None and self.history is None:
            return self
        query: Query[object] = Query(self.text, self.context, self.schema, images=self.images)
        object.__setattr__(query, "held_to", self.held_to)
        return query

    @property
    def takes_null(self) -> bool:
        """Whether null is an answer: the query has a type that takes it, as `int | None` does."""
        return self.held_to is not None and self.held_to.takes_null

    def problem(self, answer: object) -> str:
        """Return why the query's type refuses an answer, in words for a model; empty if it takes it, or if there is no type."""
        if self.held_to is None:
            return ""
        try:
            self.held_to.read(answer)
        except ValueError as error:
            return str(error)
        return ""
