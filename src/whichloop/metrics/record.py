"""The record of one trial, all that tables are computed from, and its digest.

Annotations are the checks: a record may come from any file, and is read by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, Strict, TypeAdapter, ValidationError

from whichloop.protocol.json_text import canonical_json

from .arm_info import ArmInfo

RECORD_VERSION = 1
UNREPLAYABLE = "the plan does not replay: "
"""How the reason of a trial begins that is excluded because a tool, or the plan itself, is broken."""
SCORER = "scorer "
"""How the reason of a trial begins that is errored because its scorer raised."""
RECORDING = "recording"
"""Kind of error: a recording that was to be replayed, or written, failed its trial."""
MAX_COUNT: Final = 10**15
"""Largest count, number of seconds or amount of dollars; what is computed from larger ones would overflow."""
MAX_SEED: Final = 2**63 - 1
"""Seeds lie between minus this and this."""


def _finite(value: object) -> object:
    canonical_json(value)  # JSON's 1e999 is read as infinity
    return value


Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
Counts = Mapping[Text, Count]
_SMALL, _SHARE = Field(ge=-MAX_COUNT, le=MAX_COUNT), Field(ge=0, le=1)
# A whole number stays one: as a float it would have another digest.
Number = Annotated[int, Strict(), _SMALL] | Annotated[float, Strict(), _SMALL]
Amount = Count | Annotated[float, Strict(), Field(ge=0, le=MAX_COUNT)]
Share = Annotated[int, Strict(), _SHARE] | Annotated[float, Strict(), _SHARE]

T = TypeVar("T")
_adapters: dict[Any, TypeAdapter[Any]] = {}


def read_as(kind: type[T], data: object) -> T:
    """Return JSON as a value of a type, by its annotations. Raises ValueError that names a field that is wrong."""
    try:
        _adapters[kind] = adapter = _adapters.get(kind) or TypeAdapter(kind)
        value: T = adapter.validate_python(data)
    except ValidationError as error:
        last = error.errors(include_url=False, include_input=False, include_context=False)[-1]
        raise ValueError(": ".join([*map(str, last["loc"][:1]), last["msg"]])) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One disturbance of one trial."""

    kind: Text
    """`wire.truncated`, `tool.raises`, …: family and kind."""
    point: Text
    """Where: role and first planned call of the move, `decide:c2`, or `decide:answer`; of a fault where a tool runs `tool:c2`."""
    landed: Flag = False
    """The loop received it."""
    absorbed: Flag = False
    """Landed, but the codec still read the same move: the format's merit."""
    recovered: Flag = False
    """The disturbed point later got through in the same trial."""
    implicit: Flag = False
    """A tool's failure that looked like its result."""
    believed: Flag = False
    """The model took an implicit failure for the result."""

    @property
    def family(self) -> str:
        """wire, decision, provider, tool or mcp."""
        return self.kind.partition(".")[0]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Record:
    """What one trial gave. `scored` stands in the denominator; `errored` and `excluded` do not, visibly."""

    arm: Text
    suite: Text
    suite_digest: Text
    task: Text
    repeat: Count
    """0-based."""
    seed: Annotated[int, Strict(), Field(ge=-MAX_SEED, le=MAX_SEED)]
    """The trial's own seed, derived from the run's."""
    status: Literal["scored", "errored", "excluded"]
    reason: Text = ""
    """Why the trial is errored or excluded, or what crashed, and where in the user's code, as `KeyError: 'x' at my_loop.py:14`."""
    stop: Text | None = None
    answer: Annotated[Any, AfterValidator(_finite)] = None
    scores: Mapping[Text, Share] = field(default_factory=dict)
    """Metric → value in [0, 1]; `accuracy` is the primary one."""
    steps: Count = 0
    """Replies to deciding requests, counted by the harness."""
    calls: Counts = field(default_factory=dict)
    """Model calls by role."""
    tool_calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    tokens_estimated: Flag = False
    cost_usd: Amount | None = None
    """US dollars billed; None where no price is known."""
    nominal_usd: Amount | None = None
    """What it would have cost had nothing come from a cache, the provider's or a recording."""
    retries: Counts = field(default_factory=dict)
    """Provider failures that were overcome, or tried to be, by asking again, by kind."""
    errors: Counts = field(default_factory=dict)
    """Errors by kind: `wire`, `tool.<type>`, `provider.<kind>`, …"""
    faults: tuple[FaultRecord, ...] = ()
    false_success: Flag = False
    abstained: Flag = False
    """The answer said that there is none."""
    confidence: Share | None = None
    cluster: Text = ""
    """Tasks of equal cluster are one unit of inference; empty: a cluster of its own."""
    trace_digest: Text = ""
    """sha256 of the trace's moves and observations."""
    # What follows is not part of the digest.
    repeated_calls: Count = 0
    """Tool calls equal to an earlier one of the same trial that had given a result."""
    gave_up: Flag = False
    """The answer is the design's own words for having none: kept, as the next, for judging the answer again."""
    template: Text = ""
    """What the task was made from; empty where nothing says so."""
    user_counts: Counts = field(default_factory=dict)
    """What a model that plays the task's user took, and no count of the agent has: `calls`, `input_tokens`, `output_tokens`. Empty
    where none plays them."""
    user_cost_usd: Amount | None = None
    """US dollars billed for that; None where no price is known."""
    results_needed: Counts = field(default_factory=dict)
    """Range of distances → how often a prompt of a scripted model needed a result: see `whichloop.metrics.measures`."""
    results_shown: Counts = field(default_factory=dict)
    """Range of distances → how often it showed it."""
    later_bytes: Count | None = None
    """Of all prompts after the first; None: not measured."""
    repeated_bytes: Count | None = None
    """Of those, bytes that repeat the beginning of an earlier prompt."""
    cacheable_tokens: Count | None = None
    """Input tokens that a provider's prompt cache could give: an estimate."""
    call_counts: Counts = field(default_factory=dict)
    """What became of the model's calls, by the names of `whichloop.metrics.measures`; empty where nothing was counted."""
    injections: Counts = field(default_factory=dict)
    """Instructions in results of tools, and how far they came: see `whichloop.metrics.measures`. Empty where no result had any."""
    plan_unseen: Flag = False
    """The last prompt that asked the scripted model for a decision or the answer lacked the result of a planned call."""
    answer_unseen: Flag = False
    """No prompt of the trial showed the scripted model what the planned answer rests on, or it was never asked: an answer that is
    right all the same is not the model's."""
    seconds: Number = 0.0
    """Wall time; under the scripted model the simulated time of slow and hanging faults, since its own speed says nothing."""
    wall_s: Number = 0.0
    simulated_s: Number = 0.0
    started_at: Number = 0.0
    """Unix time."""
    attempt: Count = 0
    """How many earlier attempts at this trial were errored."""
    trace_at: Count = 0
    """Where a run directory has the trace; 0: nowhere."""
    unknown: tuple[Text, ...] = ()
    """Metrics and fields that an imported record's source does not tell: what stands in them, 0 or nothing, was not measured."""
    version: Count = RECORD_VERSION

    @property
    def key(self) -> tuple[str, str, int]:
        """Which cell of the schedule: arm, task, repeat."""
        return (self.arm, self.task, self.repeat)

    @property
    def name(self) -> str:
        """The name that a user types: ARM/TASK/REPEAT."""
        return f"{self.arm}/{self.task}/{self.repeat}"

    @property
    def lm_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def user_tokens(self) -> int | None:
        """Tokens of a model that plays the user; None where none does."""
        counts = self.user_counts
        return counts.get("input_tokens", 0) + counts.get("output_tokens", 0) if counts else None

    @property
    def right_unseen(self) -> bool:
        """Whether the answer is right though the scripted model was never shown what it rests on."""
        return self.answer_unseen and self.accuracy == 1

    @property
    def tells_faults(self) -> bool:
        """Whether it is known which faults struck: no other tool tells."""
        return "faults" not in self.unknown

    @property
    def accuracy(self) -> float:
        """The primary score, in [0, 1]."""
        return self.scores.get("accuracy", 0.0)

    @property
    def is_solved(self) -> bool:
        """Whether the primary score is full."""
        return self.accuracy >= 1

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `from_json` reads it back."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"faults": [fault.to_json() for fault in self.faults], "unknown": list(self.unknown)}

    @classmethod
    def from_json(cls, data: object) -> Record:
        """Read the JSON of a record; unknown fields are passed over. Raises ValueError for another version or a wrong field."""
        version = data.get("version") if isinstance(data, Mapping) else None
        if version != RECORD_VERSION:
            raise ValueError(f"record version {version!r}, this whichloop reads {RECORD_VERSION}")
        return read_as(cls, data)


def records_by_arm(records: Iterable[Record], arms: Iterable[ArmInfo]) -> dict[str, list[Record]]:
    """Return the records of each of these arms, in their order."""
    by_arm: dict[str, list[Record]] = {info.arm: [] for info in arms}
    for record in records:
        if record.arm in by_arm:
            by_arm[record.arm].append(record)
    return by_arm


_DIGESTED = (
    "arm", "suite_digest", "task", "repeat", "status", "answer", "stop", "steps", "calls", "tool_calls",
    "input_tokens", "output_tokens", "errors", "scores", "false_success", "trace_digest",
)  # fmt: skip


def records_digest(records: Iterable[Record]) -> str:
    """Return the sha256 over the records sorted by (arm, task, repeat): never of times, cost, host, ids or the order in the file.

    Each is a line of canonical JSON with the fields of `_DIGESTED` and the faults.
    """
    sha256, between = hashlib.sha256(), ""
    for record in sorted(records, key=lambda record: record.key):
        digested = {name: getattr(record, name) for name in _DIGESTED} | {"faults": [fault.to_json() for fault in record.faults]}
        sha256.update(f"{between}{canonical_json(digested)}".encode("ascii"))
        between = "\n"
    return sha256.hexdigest()
