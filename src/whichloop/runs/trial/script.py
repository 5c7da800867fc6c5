"""Make the script that a scripted model follows in one trial of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from whichloop.datasets.task import Task
from whichloop.models.filling import fits, otherwise
from whichloop.models.profiles import Profile
from whichloop.models.receipts import Truth
from whichloop.models.scripted import Script
from whichloop.protocol import Tool


def script_of(task: Task, truth: Mapping[str, Truth], profile: Profile, seed: int, repeat: int, tools: Iterable[Tool]) -> Script:
    """Return the script of a task with a plan. `truth`: results of planned calls, may be filled in later. `seed`: the run's."""
    assert task.plan is not None
    specs = {tool.name: tool.spec for tool in tools}
    schema = task.query.schema
    made_up = None if schema is None or not profile.bluff else otherwise(schema, task.expected)  # nobody asks where none bluffs
    words = schema is None or not profile.weaknesses or fits(schema, "in words")
    is_lured = schema is not None and any(kind.startswith("inject.") for kind in profile.kinds)
    lure = otherwise(schema, task.expected) if is_lured and schema is not None else None
    return Script(
        plan=task.plan,
        oracle=truth,
        profile=profile,
        seed=seed,
        task=task.id,
        repeat=repeat,
        tools=specs,
        question=task.query.text,
        made_up=made_up,
        words=words,
        lure=lure,
    )
