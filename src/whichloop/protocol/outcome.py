"""What a loop is asked, all that it may know of a task, what its run gives, the answer and why it ended, and what it may spend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .chat import Message, Usage, earlier_messages
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


# --- what the run gives ---


class StopReason(StrEnum):
    """Why a run ended. The list is closed; timeout, budget and crashed are set by the harness only."""

    FINISHED = "finished"
    """The model ended the run with its answer."""
    FORCED = "forced"
    """At the step limit the model was asked for its answer, and gave one."""
    MAX_STEPS = "max_steps"
    """The step limit was reached without an answer of the model's; what stands there are the design's own words, if any."""
    UNFINISHED = "unfinished"
    """A single turn called tools and ended there: `details["unfinished"]` has the calls and their results (`finish`)."""
    ERROR_VALVE = "error_valve"
    """Too many errors in a row (`bare`)."""
    PARSE_FAILED = "parse_failed"
    """No reply could be read as what was asked for, within the retries: also a forced answer that is not given (`finish`)."""
    TERMINATED = "terminated"
    """A hook or a rule of the product's ended the run, or a hook raised: `details["error"]`."""
    RECOVERY_FAILED = "recovery_failed"
    """The recovery from errors was given up (`stateless`)."""
    CANCELLED = "cancelled"
    """The product's token cancelled the run (`phased`), or a comparison was interrupted."""
    TIMEOUT = "timeout"
    """The trial's time was up."""
    BUDGET = "budget"
    """The run's or the trial's budget was used up."""
    PROVIDER_ERROR = "provider_error"
    """The model gave no reply, after the retries that it makes itself: `details["error"]`, in a product `details["exception"]`."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation no longer fits the model's context: `details` as of `PROVIDER_ERROR`."""
    CRASHED = "crashed"
    """The loop itself raised."""


_MEANT: Mapping[StopReason, str] = {
    StopReason.MAX_STEPS: "the step limit was reached before the model answered",
    StopReason.UNFINISHED: "the single turn ended in calls of tools: set max_steps for more",
    StopReason.ERROR_VALVE: "too many errors in a row",
    StopReason.PARSE_FAILED: "no reply could be read as what was asked for",
    StopReason.RECOVERY_FAILED: "the recovery from errors was given up",
    StopReason.CANCELLED: "the run was cancelled",
    StopReason.CONTEXT_OVERFLOW: "the conversation no longer fits the model's context",
}
"""Why a run failed, for a design that says no more."""

HARNESS_STOPS = frozenset({StopReason.TIMEOUT, StopReason.BUDGET, StopReason.CRASHED, StopReason.CANCELLED})
"""Every loop can reach these, because the harness sets them."""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run took: the sum of what its events tell, and of the attempts that replies and errors tell."""

    requests: int
    """What the provider was sent: requests, failed ones and each further attempt included, also those that the model's client makes
    by itself, as far as it tells (`failed_attempts` of replies and errors)."""
    tool_calls: int
    """Calls of tools that came to an end, whatever their result; not those that a person refused, or gave the result of."""
    tokens: Usage | None
    """The sum over the replies whose tokens the model's client tells; None if it tells none."""
    uncounted: int = 0
    """Replies whose tokens it does not tell, so that the sum is less than what was used; one that broke off is among them."""

    @property
    def input_tokens(self) -> int | None:
        return None if self.tokens is None else self.tokens.input_tokens

    @property
    def output_tokens(self) -> int | None:
        return None if self.tokens is None else self.tokens.output_tokens

    @property
    def total_tokens(self) -> int | None:
        return None if self.tokens is None else self.tokens.total_tokens

    @property
    def cost_usd(self) -> float | None:
        """US dollars; None if no client tells a cost."""
        return None if self.tokens is None else self.tokens.cost_usd

    def as_dict(self) -> dict[str, Any]:
        """Return JSON: `requests`, `tool_calls`, and as far as known `input_tokens`, `output_tokens`, `uncounted`, `cost_usd`.

        `estimated` is true where no provider has counted the tokens.
        """
        data: dict[str, object] = {"requests": self.requests, "tool_calls": self.tool_calls}
        if self.tokens is not None:
            data |= {"input_tokens": self.tokens.input_tokens, "output_tokens": self.tokens.output_tokens}
        data |= {"estimated": True} if self.tokens is not None and self.tokens.estimated else {}
        data |= {"uncounted": self.uncounted} if self.uncounted else {}
        return data | ({} if self.cost_usd is None else {"cost_usd": self.cost_usd})


@dataclass(frozen=True, slots=True)
class Outcome(Parametrized[AnswerT]):
    """The result of a run."""

    answer: AnswerT
    """Text; a JSON value if the query has a JSON schema; an instance if its schema is a type. None if there is no answer.

    How far a design holds its answer to a JSON schema is the design's: `finish` validates it, `bare` gives JSON as text. What is no
    instance of a type is no answer in any design.
    """
    stop: StopReason
    steps: int
    """What the design's own limit counts, so that designs count differently; a comparison counts replies itself.

    `bare`: replies that called a tool or could not be read, without the one that answers. `finish`: replies, the one that
    finishes and, unless `retries_consume_steps` is off, corrections included, without those forced at the limit. `phased`: tasks
    that use tools. `react_extract`: React replies, the choice of `finish` included. `stateless`: decisions, the last included.
    """
    confidence: float | None = None
    """A number in [0, 1], from loops that report one."""
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the design adds: history, trajectory, errors. Not printed with the rest, because it may be long."""
    gave_up: bool = False
    """The answer is the design's own words for having none, such as "maximum steps reached": never scored as right."""
    is_null: bool = False
    """The model answered null, which the query's type takes: None is the answer, not the lack of one."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation with this turn, for `Query(text, history=outcome.messages)`.

    A turn is the query's text and context, each call with its result as the model read it, and the answer, if there is one.
    `[message.as_dict() for message in outcome.messages]` is JSON, which a query takes as a history, too. Empty where a loop of a
    user's own runs by itself, and in a comparison's trials.
    """
    usage: RunUsage | None = field(default=None, compare=False, repr=False)
    """Tokens, requests and calls; of a run that was taken up, those of the whole run. None where there are no messages."""

    def __repr__(self) -> str:
        """Print why the run failed, too, which stands in the details."""
        parts = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
        if self.error is not None:
            parts.append(f"error={self.error!r}")
        return f"{type(self).__qualname__}({', '.join(parts)})"

    @property
    def error(self) -> str | None:
        """What ended the run without an answer, or spoiled it: `details["error"]`, or what `stop` means; None if nothing did."""
        error = self.details.get("error", _MEANT.get(self.stop))
        return None if error is None else str(error)

    @property
    def ok(self) -> bool:
        """Whether the model answered: the run finished, or was made to answer at its limit, and there is an answer."""
        return (
            self.stop in (StopReason.FINISHED, StopReason.FORCED) and (self.answer is not None or self.is_null) and not self.gave_up
        )


@dataclass(frozen=True, slots=True)
class Expenses:
    """What has been spent."""

    calls: int = 0
    """Requests to a model; the attempts that its client makes by itself at one request are not counted."""
    tokens: int = 0
    """Input and output tokens."""
    dollars: float = 0.0
    """US dollars, of the replies whose price is known."""
    unpriced: int = 0
    """Replies whose price is not known."""

    @property
    def cost_usd(self) -> float | None:
        """US dollars that all replies cost; None if the price of one is not known, for that is not 0."""
        return None if self.unpriced else self.dollars


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent, by a whole run or by who holds a meter; None: no limit."""

    calls: int | None = None
    """Requests to a model; the attempts that its client makes by itself at one request are not counted."""
    tokens: int | None = None
    """Input and output tokens."""
    dollars: float | None = None
    """US dollars, as far as prices are known; a model that says of itself that it has no price is refused."""
    seconds: float | None = None
    """Wall time since the meter was made. It is looked at before each call, so that a call under way is not interrupted:
    `asyncio.timeout` does that."""

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "dollars", "seconds"):
            limit = getattr(self, name)
            if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool) or not limit >= 0):
                raise ValueError(f"Budget: {name} must be 0 or more, or None for no limit, not {limit!r}")

    @property
    def is_unlimited(self) -> bool:
        return self.calls is None and self.tokens is None and self.dollars is None and self.seconds is None

    def used_up(self, spent: Expenses, seconds: float = 0.0) -> str:
        """Return the limit that is used up, in words; empty while there is room."""
        limits = {
            "model calls": (spent.calls, self.calls),
            "tokens": (spent.tokens, self.tokens),
            "dollars": (spent.dollars, self.dollars),
            "seconds": (seconds, self.seconds),
        }
        for what, (used, limit) in limits.items():
            if limit is not None and used >= limit:
                return f"budget of {limit:.12g} {what} used up"
        return ""

    def check_price(self, model: Any) -> None:
        """Raise ValueError for a budget of dollars over a model that says (`is_priced`) that its price is not known."""
        if self.dollars is not None and not getattr(model, "is_priced", True):
            raise ValueError(
                f"a budget in dollars needs the price of {model.name}, which is in no price list: give it with "
                "RealOptions(prices=…), or limit tokens or calls"
            )
