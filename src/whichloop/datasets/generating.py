"""What the generated suites share: draws that never change, plans written call by call, numbered tasks, committed snapshots.

A suite is a list of templates. A template is a function of a `Draw` that gives a `Draft`: a question, its plan, the answer, and the
world that the tools act on. `story` writes one by running it. Task i of a seed is the same for any size of the suite.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from whichloop.protocol import Plan, Query, Ref
from whichloop.protocol.json_text import sha256

from .task import Environment, Suite, Task, TemplateRole, given_instead

MAX_SIZE = 100_000
SNAPSHOTS = Path(__file__).parent / "snapshots"
UNANSWERABLE_EVERY = 12
"""Every twelfth task has no answer, if a suite has such templates: never more than one in ten, whatever the size."""
MAX_DRAWS = 1_000
"""A template that gives no new question in so many draws has too little to vary."""

Item = TypeVar("Item")
Drawn = TypeVar("Drawn", int, str)
AnyTemplate = TypeVar("AnyTemplate", bound=Callable[..., Any])


class Draw:
    """Draws that depend on a key alone, and on no Python version: all come from `Random.random`, whose sequence Python guarantees
    (the documentation of `random`, "Notes on Reproducibility").
    """

    def __init__(self, *key: object) -> None:
        self._random = random.Random(int(sha256("/".join(map(str, key)))[:16], 16)).random

    def integer(self, low: int, high: int, step: int = 1) -> int:
        """Draw uniformly from low, low + step, … up to high, which is included if a step lands on it."""
        return low + step * int(self._random() * ((high - low) // step + 1))

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def choice(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Draw different items, in random order. Raises ValueError if there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot draw {count} of {len(items)} items")
        return self.shuffled(items)[:count]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        order = list(items)
        for last in range(len(order) - 1, 0, -1):
            other = int(self._random() * (last + 1))
            order[last], order[other] = order[other], order[last]
        return order


def draw_until(fits: Callable[[Item], bool], draw_one: Callable[[], Item]) -> Item:
    """Draw until something fits, and return it. Something must fit."""
    while not fits(drawn := draw_one()):
        pass
    return drawn


def draw_new(taken: Container[object], draw_one: Callable[[], Item]) -> Item:
    """Draw until something is not taken yet, and return it."""
    return draw_until(lambda drawn: drawn not in taken, draw_one)


def distinct(count: int, draw_one: Callable[[], Drawn]) -> list[Drawn]:
    """Return so many different draws. There must be more than that to be drawn."""
    drawn: dict[Drawn, None] = {}
    while len(drawn) < count:
        drawn[draw_one()] = None
    return list(drawn)


def part(ref: Ref, *path: str | int) -> Ref:
    """Refer to a part of a call's result, by keys and indices."""
    return Ref(ref.call, (*ref.path, *path))


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before it has its number. Raises ValueError for a plan that is none, such as its text."""

    question: str
    plan: Plan
    expected: Any
    """The answer; None if there is none."""
    scorer: str = "exact"
    context: str = ""
    schema: Mapping[str, Any] | None = None
    world: Mapping[str, Any] = field(default_factory=dict)
    end_state: Any = None
    instance: str = ""
    """Name of the facts that several tasks may share, which keeps these in one split. Empty: no other task shares them."""
    difficulty: str = ""
    """easy, medium or hard; empty: derived from the number of calls that need another one first."""

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan):
            raise ValueError(f"Draft: plan: {given_instead('plan_from_lines(text)', self.plan)}")


Template = Callable[[Draw], Draft]


def generate(name: str, seed: int, templates: Sequence[Template], unanswerable: Sequence[Template] = ()) -> Iterator[Task]:
    """Generate tasks without end; the first n are the same for every n. No two ask the same question of the same world.

    Raises ValueError for a template that keeps giving questions that were there before.
    """
    seen: set[str] = set()
    index = 0
    while True:
        template = template_of(index, templates, unanswerable)
        for attempt in range(MAX_DRAWS):
            draft = template(Draw(name, seed, index, attempt))
            key = sha256(f"{draft.question}\n{draft.context}\n{json.dumps(draft.world, sort_keys=True)}")[:16]
            if key not in seen:
                break
        else:
            raise ValueError(f"{name}: template {template.__name__!r} gave no new question in {MAX_DRAWS} draws")
        seen.add(key)
        index += 1
        yield _task(name, seed, index, template.__name__.strip("_"), draft)


def template_of(index: int, templates: Sequence[AnyTemplate], unanswerable: Sequence[AnyTemplate]) -> AnyTemplate:
    """Return the template of the task with this index, from 0: all in turn, and every twelfth one without an answer."""
    if not unanswerable:
        return templates[index % len(templates)]
    turn, place = divmod(index, UNANSWERABLE_EVERY)
    if place == UNANSWERABLE_EVERY - 1:
        return unanswerable[turn % len(unanswerable)]
    return templates[(index - turn) % len(templates)]


def _task(name: str, seed: int, number: int, template: str, draft: Draft) -> Task:
    instance = draft.instance or f"{template}/{seed}/{number}"
    difficulty, split = draft.difficulty or difficulty_of(draft.plan), split_of(f"{name}/{instance}")
    labels = {"difficulty": difficulty, "template": template, "instance": instance, "split": split}
    return Task(
        id=f"{name}-{number:04d}",
        query=Query(draft.question, draft.context, draft.schema),
        expected=draft.expected,
        scorer=draft.scorer,
        plan=draft.plan,
        labels=labels | ({"cluster": instance} if draft.instance else {}),
        world=draft.world,
        end_state=draft.end_state,
    )


def difficulty_of(plan: Plan) -> str:
    """Return the difficulty by the number of calls that need another one first."""
    dependent = sum(bool(needs) for needs in plan.dependencies.values())
    return "easy" if dependent <= 2 else "medium" if dependent <= 4 else "hard"


SPLITS = ("train", "dev", "test")


def split_of(key: str) -> str:
    """Return the split of a key: half go to train, a fifth to dev, the rest to test."""
    tenth = int(sha256(key)[:8], 16) % 10
    return "train" if tenth < 5 else "dev" if tenth < 7 else "test"


@dataclass(frozen=True, slots=True)
class Source:
    """A generated suite: how its tasks are made, and the environments that they are solved in. Its other fields: see `Suite`."""

    name: str
    version: str
    generate: Callable[[int], Iterator[Task]]
    """Seed → tasks without end."""
    open: Callable[[Task], Environment]
    step_limit: int | None = None
    shared: str = ""
    distractors: frozenset[str] = frozenset()
    templates: TemplateRole = "strata"
    default_size: int = 120
    snapshots: Path | None = None
    """Folder of the committed default tasks; None: the default tasks are generated."""

    @property
    def snapshot(self) -> Path | None:
        """File of the default tasks, one `Task.as_dict()` as canonical JSON per line; None if they are generated."""
        return None if self.snapshots is None else self.snapshots / f"{self.name}-v{self.version}.jsonl"

    def suite(self, size: int | None = None, seed: int = 0) -> Suite:
        """Return the suite. Each module of a generated suite exports this method of its source as `load`.

        `size`: number of tasks, 1 to 100,000; left out, 120. `seed`: another one gives other tasks. With neither, the tasks are the
        committed snapshot, if there is one; `default_size` may differ from 120.

        Raises ValueError for values out of range, OSError for a snapshot that cannot be read.
        """
        for option, value in (("size", self.default_size if size is None else size), ("seed", seed)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{self.name}: {option} is {value!r}, and must be a whole number")
        if size is not None and not 1 <= size <= MAX_SIZE:
            raise ValueError(f"{self.name}: size is {size}, and must lie between 1 and {MAX_SIZE}")
        if self.snapshot and size is None and seed == 0:
            tasks = tuple(Task.from_dict(json.loads(line)) for line in self.snapshot.read_bytes().splitlines())
        else:
            tasks = tuple(islice(self.generate(seed), size or self.default_size))
        return Suite(self.name, self.version, tasks, self.open, self.step_limit, self.shared, self.distractors, self.templates)
