"""Learned plans, as a document."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

from whichloop.protocol.names import Spec
from whichloop.text.doc import Doc, Table, lines_of

from .learn import LearnedSuite

MAX_REASONS = 5
"""Reasons that a terminal shows without -v."""


def learned_doc(learned: LearnedSuite, out: Path) -> Doc:
    """Return what was learned and what was not, and the command that runs the scripted model on the file."""
    scorers = sorted({task.scorer for task in learned.tasks if ":" in task.scorer})  # the user's own code has to be named again
    spec = str(Spec("jsonl", {"scorer": scorers[0]} if scorers else {}))
    command = ["whichloop", "compare", "--suite", spec, "--data", str(out)]
    command += ["--tools", learned.tools] if learned.tools else []
    is_whole = all(task.plan or task.quarantined for task in learned.tasks)
    command += [] if is_whole else ["-s", "skip_unplanned=true"]
    literal = [(lesson.task, value) for lesson in learned.lessons for value in lesson.fixed_values]
    counts = (
        len(learned.tasks),
        len(learned.lessons),
        sum(len(lesson.plan.calls) for lesson in learned.lessons),
        sum(lesson.references for lesson in learned.lessons),
        len(literal),
        len(learned.not_learned),
    )
    columns = ("tasks", "learned", "calls", "references", "kept literal", "not learned")
    rows = tuple((task, one.call, one.argument, json.dumps(one.value), ", ".join(one.seen)) for task, one in literal)
    missed = Counter(learned.not_learned.values()).most_common(MAX_REASONS)
    blocks = (
        Table("", columns, (tuple(map(str, counts)),)),
        lines_of(
            ("Missing", [f"{many} tasks: {why}" for why, many in missed]),
            ("Warning", "" if learned.checked else "the plans were not replayed; --check runs the tools and does that"),
            ("Next", shlex.join(command)),
        ),
        Table(
            "Literal, though earlier results hold the value too",
            ("task", "call", "argument", "value", "seen"),
            rows,
            detail=True,
        ),
        Table("Not learned", ("task", "reason"), tuple(learned.not_learned.items()), detail=True),
    )
    return Doc(f"Learned from {learned.run}", blocks, learned.as_dict() | {"out": str(out)})
