"""Word problems of up to eight calculator calls, most of which need the result of an earlier one.

Seeded: task i is the same for any size. Shapes: chains, branches that join, unit conversions, comparisons, a division by zero
that has to be survived, and questions without an answer. Every text holds numbers that do not matter, and the toolbox holds tools
that no plan needs. The default suite is a committed snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from whichloop.protocol import Query
from whichloop.protocol.digest import sha256

from ..generating import SNAPSHOTS, Source, difficulty_of, split_of, template_of
from ..task import StatelessEnvironment, Task
from . import stories
from .problem import ENVIRONMENT, ProblemStory, Template

TEMPLATES: tuple[Template, ...] = (
    stories.bakery, stories.orchards, stories.savings, stories.parcels, stories.offers, stories.factory, stories.library,
    stories.hike, stories.relay, stories.wages, stories.tank, stories.bus, stories.plots, stories.novel, stories.fair,
    stories.catering,
    stories.discount, stories.frame, stories.leftover_ribbon, stories.meeting, stories.capped_fee, stories.box_volume,
    stories.mean_of_three, stories.chase, stories.two_percentages, stories.load_limit, stories.profit, stories.bottles,
    stories.reversed_price, stories.fence, stories.wasted_board, stories.scale_model, stories.least_charge,
    stories.two_clocks, stories.unequal_shares, stories.three_jars, stories.missing_mark, stories.slower_clock,
    stories.machine_pair, stories.night_share,
)  # fmt: skip
UNANSWERABLE: tuple[Template, ...] = (stories.shopping, stories.party, stories.car_park)


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
    template, texts = template_of(index, TEMPLATES, UNANSWERABLE), ProblemStory.wording.texts
    while True:  # a draw that repeats a call, or an earlier text, is rare
        story = template(draw)
        sentences = story.sentences
        unused = [number for number in range(11, 100) if str(number) not in "".join(sentences)]
        for aside in draw.sample(texts["aside"], draw.randint(1, 2)):
            sentences.insert(draw.randint(1, len(sentences)), aside.format(draw.choice(unused)))
        text = f"{' '.join(sentences)} {story.question} {texts['answer_format']}"
        if not story.repeats and text not in texts_so_far:
            break
    task_id = f"arithmetic-{index + 1:04d}"
    # No `cluster`: numbers and names are drawn anew for each task, and the templates are strata chosen by us, no sample.
    labels = {"difficulty": difficulty_of(story.plan), "template": template.__name__.strip("_"), "split": split_of(task_id)}
    return Task(id=task_id, query=Query(text), expected=story.expected, scorer="numeric", plan=story.plan, labels=labels)


def open_calculator(task: Task) -> StatelessEnvironment:
    return ENVIRONMENT


SOURCE = Source(
    "arithmetic",
    "2",
    generate,
    open_calculator,
    distractors=frozenset({"power", "round_to"}),
    snapshots=SNAPSHOTS,
    templates="strata",
)

SUITE = load = SOURCE.suite
