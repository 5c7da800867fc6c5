"""The record of one trial: all that tables are computed from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal

from .record_fields import check_fault, check_fields

RECORD_VERSION = 1
UNREPLAYABLE = "the plan does not replay: "
"""How the reason of a trial begins that is excluded because a tool, or the plan itself, is broken."""
SCORER = "scorer "
"""How the reason of a trial begins that is errored because its scorer raised."""
RECORDING = "recording"
"""Kind of error: a recording that was to be replayed, or written, failed its trial."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One disturbance of one trial."""

    kind: str
    """`wire.truncated`, `tool.raises`, …: family and kind."""
    point: str
    """Where: role and first planned call of the move, `decide:c2`, or `decide:answer`; of a fault where a tool runs `tool:c2`."""
    landed: bool = False
    """The loop received it."""
    absorbed: bool = False
    """Landed, but the codec still read the same move: the format's merit."""
    recovered: bool = False
    """The disturbed point later got through in the same trial."""
    implicit: bool = False
    """A tool's failure that looked like its result."""
    believed: bool = False
    """The model took an implicit failure for the result."""

    @property
    def family(self) -> str:
        """wire, decision, provider, tool or mcp."""
        return self.kind.partition(".")[0]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "kind": self.kind,
            "point": self.point,
            "landed": self.landed,
            "absorbed": self.absorbed,
            "recovered": self.recovered,
            "implicit": self.implicit,
            "believed": self.believed,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """What one trial gave. `scored` stands in the denominator; `errored` and `excluded` do not, visibly."""

    arm: str
    suite: str
    suite_digest: str
    task: str
    repeat: int
    """0-based."""
    seed: int
    """The trial's own seed, derived from the run's."""
    status: Literal["scored", "errored", "excluded"]
    reason: str = ""
    """Why the trial is errored or excluded, or what crashed, and where in the user's code, as `KeyError: 'x' at my_loop.py:14`."""
    stop: str | None = None
    answer: Any = None
    scores: Mapping[str, float] = field(default_factory=dict)
    """Metric → value in [0, 1]; `accuracy` is the primary one."""
    steps: int = 0
    """Replies to deciding requests, counted by the harness."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Model calls by role."""
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    tokens_estimated: bool = False
    cost_usd: float | None = None
    """US dollars billed; None where no price is known."""
    nominal_usd: float | None = None
    """What it would have cost had nothing come from a cache, the provider's or a recording."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """Provider failures that were overcome, or tried to be, by asking again, by kind."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Errors by kind: `wire`, `tool.<type>`, `provider.<kind>`, …"""
    faults: tuple[FaultRecord, ...] = ()
    false_success: bool = False
    abstained: bool = False
    """The answer said that there is none."""
    confidence: float | None = None
    cluster: str = ""
    """Tasks of equal cluster are one unit of inference; empty: a cluster of its own."""
    trace_digest: str = ""
    """sha256 of the trace's moves and observations."""
    # What follows is not part of the digest.
    repeated_calls: int = 0
    """Tool calls equal to an earlier one of the same trial that had given a result."""
    gave_up: bool = False
    """The answer is the design's own words for having none: kept, as the next, for judging the answer again."""
    template: str = ""
    """What the task was made from; empty where nothing says so."""
    user_counts: Mapping[str, int] = field(default_factory=dict)
    """What a model that plays the task's user took, and no count of the agent has: `calls`, `input_tokens`, `output_tokens`. Empty
    where none plays them."""
    user_cost_usd: float | None = None
    """US dollars billed for that; None where no price is known."""
    results_needed: Mapping[str, int] = field(default_factory=dict)
    """Range of distances → how often a prompt of a scripted model needed a result: see `whichloop.metrics.record_table`."""
    results_shown: Mapping[str, int] = field(default_factory=dict)
    """Range of distances → how often it showed it."""
    later_bytes: int | None = None
    """Of all prompts after the first; None: not measured."""
    repeated_bytes: int | None = None
    """Of those, bytes that repeat the beginning of an earlier prompt."""
    cacheable_tokens: int | None = None
    """Input tokens that a provider's prompt cache could give: an estimate."""
    call_counts: Mapping[str, int] = field(default_factory=dict)
    """What became of the model's calls, by the names of `whichloop.metrics.measures`; empty where nothing was counted."""
    injections: Mapping[str, int] = field(default_factory=dict)
    """Instructions in results of tools, and how far they came: see `whichloop.metrics.measures`. Empty where no result had any."""
    plan_unseen: bool = False
    """The last prompt that asked the scripted model for a decision or the answer lacked the result of a planned call."""
    answer_unseen: bool = False
    """No prompt of the trial showed the scripted model what the planned answer rests on, or it was never asked: an answer that is
    right all the same is not the model's."""
    seconds: float = 0.0
    """Wall time; under the scripted model the simulated time of slow and hanging faults, since its own speed says nothing."""
    wall_s: float = 0.0
    simulated_s: float = 0.0
    started_at: float = 0.0
    """Unix time."""
    attempt: int = 0
    """How many earlier attempts at this trial were errored."""
    trace_at: int = 0
    """Where a run directory has the trace; 0: nowhere."""
    unknown: tuple[str, ...] = ()
    """Metrics and fields that an imported record's source does not tell: what stands in them, 0 or nothing, was not measured."""
    version: int = RECORD_VERSION

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
        plain = dict(zip(_NAMES, _values(self), strict=True))
        plain["faults"] = [fault.to_json() for fault in self.faults]
        plain["unknown"] = list(self.unknown)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Read the JSON of a record. Raises ValueError for another version or a field out of bounds, KeyError or TypeError for what
        is not a record."""
        if data.get("version") != RECORD_VERSION:
            raise ValueError(f"record version {data.get('version')!r}, this whichloop reads {RECORD_VERSION}")
        values = {name: value for name, value in data.items() if name in _KNOWN}
        values["faults"] = tuple(map(_fault, data["faults"]))
        values["unknown"] = tuple(data.get("unknown", ()))
        check_fields(values)
        if len(values) < len(_SLOTS):
            return cls(**values)
        record = object.__new__(cls)  # the constructor of a frozen class sets each field through the class: four times as long
        for name, put in _SLOTS:
            put(record, values[name])
        return record


def _fault(data: Mapping[str, Any]) -> FaultRecord:
    check_fault(data)
    return FaultRecord(**data)


_NAMES = tuple(item.name for item in fields(Record))
_KNOWN = frozenset(_NAMES)
_SLOTS = tuple((name, vars(Record)[name].__set__) for name in _NAMES)
_values = attrgetter(*_NAMES)


class Shared:
    """Texts and counts that many lines of one file have in common, each held once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def of(self, data: Any) -> Any:
        """Return the JSON of a record, changed in place; what is none stays as it is."""
        if isinstance(data, dict):
            for name in _TEXTS:
                text = data.get(name)
                if type(text) is str:
                    data[name] = sys.intern(text)
            for name in _COUNTS:
                counts = data.get(name)
                if type(counts) is dict:
                    data[name] = self._known.setdefault(repr(counts), counts)  # repr: 1, 1.0 and True are equal
        return data


_TEXTS = ("arm", "suite", "suite_digest", "task", "status", "reason", "stop", "cluster", "template")
_COUNTS = ("scores", "calls", "user_counts", "retries", "errors", "results_needed", "results_shown", "injections", "call_counts")
