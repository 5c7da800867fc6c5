"""Word problems of up to eight calculator calls, most of which need the result of an earlier one.

Seeded: task i is the same for any size. Shapes: chains, branches that join, unit conversions, comparisons, a division by zero
that has to be survived, and questions without an answer. Every text holds numbers that do not matter, and the toolbox holds tools
that no plan needs. The default suite is a committed snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from whichloop.protocol import Plan, Query
from whichloop.protocol.json_text import sha256

from ..generating import SNAPSHOTS, Source, difficulty_of, split_of, template_of
from ..task import StatelessEnvironment, Task
from .problem import ENVIRONMENT, ProblemStory


def generate(seed: int = 0) -> Iterator[Task]:
    """Generate tasks without end; the first n are the same for every n. No two have the same text."""
    seen, texts = set[str](), ProblemStory.wording.texts
    unanswerable = texts["unanswerable"]
    templates = [name for name in texts if "draws" in texts[name] and name not in unanswerable]
    for index in count():
        draw, name = random.Random(int(sha256(f"arithmetic/{seed}/{index}")[:16], 16)), template_of(index, templates, unanswerable)
        while True:  # a draw that repeats a call, or an earlier text, is rare
            story = ProblemStory(name, draw)
            sentences = story.sentences
            unused = [number for number in range(11, 100) if str(number) not in "".join(sentences)]
            for aside in draw.sample(texts["aside"], draw.randint(1, 2)):
                sentences.insert(draw.randint(1, len(sentences)), aside.format(draw.choice(unused)))
            text = f"{' '.join(sentences)} {story.question} {texts['answer_format']}"
            if not story.repeats and text not in seen:
                break
        seen.add(text)
        task_id, plan = f"arithmetic-{index + 1:04d}", Plan(tuple(story.calls), story.answer)
        # No `cluster`: numbers and names are drawn anew for each task, and the templates are strata chosen by us, no sample.
        labels = {"difficulty": difficulty_of(plan), "template": name, "split": split_of(task_id)}
        yield Task(task_id, Query(text), story.seen(story.answer), "numeric", plan, labels=labels)


def open_calculator(task: Task) -> StatelessEnvironment:
    return ENVIRONMENT


SOURCE = Source(
    "arithmetic", "2", generate, open_calculator, distractors=frozenset({"power", "round_to"}), snapshots=SNAPSHOTS
)  # fmt: skip
SUITE = load = SOURCE.suite
