"""Word problems of up to eight calculator calls, most of which need the result of an earlier one.

Seeded: task i is the same for any size. Shapes: chains, branches that join, unit conversions, comparisons, a division by zero
that has to be survived, and questions without an answer. Every text holds numbers that do not matter, and the toolbox holds tools
that no plan needs. The default suite is a committed snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from whichloop.protocol import Plan, Query
from whichloop.protocol.digest import sha256

from .. import calculator
from ..generating import SNAPSHOTS, Source, difficulty_of, plain_number, split_of, template_of
from ..task import StatelessEnvironment, Task
from . import chains, measures
from .chains import Steps, WordProblem

ANSWER_FORMAT = 'Give a number. If no number can be determined, the right answer is "not determined".'

_ASIDES = (
    "The nearest bus stop is served by line {}.",
    "It is day {} of the year.",
    "The radio plays a song from 19{}.",
    "A poster on the wall announces {} concerts.",
    "A phone has {} percent of its battery left.",
    "The house next door has number {}.",
    "An almanac on the table has {} pages.",
    "There are {} pigeons on the roof.",
    "A neighbour turns {} on Friday.",
)
"""Sentences with a number that no plan needs."""
_ENVIRONMENT = StatelessEnvironment(calculator.TOOLS)

_Template = Callable[[random.Random, Steps], WordProblem]

TEMPLATES: tuple[_Template, ...] = (
    chains.bakery, chains.orchards, chains.savings, chains.parcels, chains.offers, chains.factory, chains.library,
    chains.hike, chains.relay, chains.wages, chains.tank, chains.bus, chains.plots, chains.novel, chains.fair,
    chains.catering,
    measures.discount, measures.frame, measures.leftover_ribbon, measures.meeting, measures.capped_fee, measures.box_volume,
    measures.mean_of_three, measures.chase, measures.two_percentages, measures.load_limit, measures.profit, measures.bottles,
    measures.reversed_price, measures.fence, measures.wasted_board, measures.scale_model, measures.least_charge,
    measures.two_clocks, measures.unequal_shares, measures.three_jars, measures.missing_mark, measures.slower_clock,
    measures.machine_pair, measures.night_share,
)  # fmt: skip
UNANSWERABLE: tuple[_Template, ...] = (chains.shopping, chains.party, chains.car_park)


def generate(seed: int = 0) -> Iterator[Task]:
    """Generate tasks without end; the first n are the same for every n. No two have the same text."""
    seen: set[str] = set()
    index = 0
    while True:
        task = _task(index, seed, seen)
        seen.add(task.query.text)
        yield task
        index += 1


def _task(index: int, seed: int, texts_so_far: set[str]) -> Task:
    draw = random.Random(int(sha256(f"arithmetic/{seed}/{index}")[:16], 16))
    template = template_of(index, TEMPLATES, UNANSWERABLE)
    while True:  # a draw that repeats a call, or an earlier text, is rare
        steps = Steps()
        story = template(draw, steps)
        sentences = list(story.sentences)
        unused = [number for number in range(11, 100) if str(number) not in "".join(sentences)]
        for aside in draw.sample(_ASIDES, draw.randint(1, 2)):
            sentences.insert(draw.randint(1, len(sentences)), aside.format(draw.choice(unused)))
        text = f"{' '.join(sentences)} {story.question} {ANSWER_FORMAT}"
        if not steps.repeats and text not in texts_so_far:
            break
    plan = Plan(tuple(steps.calls), story.answer)
    task_id = f"arithmetic-{index + 1:04d}"
    return Task(
        id=task_id,
        query=Query(text),
        expected=None if story.expected is None else plain_number(story.expected),
        scorer="numeric",
        plan=plan,
        # No `cluster`: numbers and names are drawn anew for each task, and the templates are strata chosen by us, no sample.
        labels={"difficulty": difficulty_of(plan), "template": template.__name__.strip("_"), "split": split_of(task_id)},
    )


def _open(task: Task) -> StatelessEnvironment:
    return _ENVIRONMENT


SOURCE = Source(
    "arithmetic",
    "2",
    generate,
    _open,
    distractors=frozenset({"power", "round_to"}),
    snapshots=SNAPSHOTS,
    templates="strata",
)

SUITE = load = SOURCE.suite
