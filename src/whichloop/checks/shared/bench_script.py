"""The script of a scripted model for a task of a test bench."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.datasets.validity import replay
from whichloop.models.profiles import Profile, load_profile
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.models.scripted import Script
from whichloop.protocol import Tool


async def bench_script(task: Task, tools: Sequence[Tool], question: str = "", profile: Profile | None = None) -> Script:
    """Return the script of a task with a plan, its results replayed on these tools.

    `question`: another wording of the task's own. `profile`: what the model can do; default: `clean`.
    """
    assert task.plan is not None
    replayed = await replay(task, Suite("bench", "1", (task,), lambda _: StatelessEnvironment(tuple(tools))))
    oracle = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in replayed}
    specs = {tool.name: tool.spec for tool in tools}
    model = profile or load_profile("clean")
    return Script(task.plan, oracle, model, 0, task.id, tools=specs, question=question or task.query.text)
