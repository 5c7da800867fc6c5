"""The declarative face: branches."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.loops.finish.module_helpers import (
    BAD,
    SEARCH,
    AnswerOutput,
    QuestionInput,
    Review,
    agent_of,
    assert_legal,
    contents,
    finish,
    native,
    says,
    search,
)
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import (
    ParseError,
    Step,
    module,
)
from whichloop.protocol import (
    BudgetExceeded,
    Message,
    ProviderError,
    Reply,
    Request,
    run_sync,
)


class Deeper(module):
    """Branches into itself."""

    max_steps = 2
    tools = (search,)

    async def on_step(self, step: Step) -> None:
        await self.branch(Deeper)


@pytest.mark.parametrize("is_async", [True, False])
@row("S3-15", "S3-36", "B3-24")
def test_a_branch_gives_the_childs_result_and_nothing_is_injected(is_async: bool) -> None:
    def plain(self: Any, step: Step) -> None:
        review = self.branch(Review)
        got.append(review)
        self.history.append({"role": "user", "content": f"Review complete: {review.model_dump_json()}"})

    async def later(self: Any, step: Step) -> None:
        review = await self.branch(Review)
        got.append(review)
        self.history.append({"role": "user", "content": f"Review complete: {review.model_dump_json()}"})

    got: list[Any] = []
    model = Script(SEARCH, finish("fine", confidence=1), finish("done"))
    assert agent_of(model, later if is_async else plain)(question="?").answer == "done"
    parent, child, after = model.requests
    assert got == [AnswerOutput(answer="fine", confidence=1)]
    assert [message.content for message in after.messages if message.role == "user"][1:] == [
        'Review complete: {"answer":"fine","confidence":1.0}'
    ]
    assert "fine" not in str([message for message in after.messages if message.role != "user"])
    assert_legal(after.messages)
    assert (parent.scope, child.scope) == ("", "/Review")
    assert [spec.name for spec in child.tools] == ["__finish__"]


@row("B3-24", "X-2")
def test_a_child_inherits_the_history_without_system_message_and_unfinished_step() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            self.history.insert(1, Message("system", "as a Message"))
            self.branch(Review)

    model = Script(says(native("search", "one", query="a")), says(native("search", "two", query="b")), finish("c"), finish("d"))
    agent_of(model, on_step)(question="?")
    child = model.requests[2]
    assert [message.role for message in child.messages] == ["system", "user", "assistant", "tool", "user"]
    assert child.messages[0].content == "Review the work."
    assert child.messages[2].calls[0].id == "one"
    assert_legal(child.messages)
    assert len(model.requests) == 4


@row("B3-24")
def test_a_child_has_its_own_limit_copy_and_settings() -> None:
    class Child(Review):
        max_steps = 1
        temperature = 0.1
        tools = (search,)

        def on_step(self, step: Step) -> None:
            self.history.append({"role": "user", "content": "child's own"})
            self.history[0]["content"] += " child's edit"

    def on_step(self: Any, step: Step) -> None:
        self.branch(Child)

    model = Script(SEARCH, SEARCH, finish("c"), finish("d"))
    agent_of(model, on_step, temperature=0.9)(question="?")
    assert [request.sampling.temperature for request in model.requests] == [0.9, 0.1, 0.1, 0.9]
    assert model.requests[2].tool_choice == "__finish__"
    assert "child's edit" in contents(model.requests[2], "user")[0]
    assert model.requests[3].messages[:2] == model.requests[0].messages
    assert "child's own" not in contents(model.requests[3], "user")


@row("B3-24")
def test_branches_are_three_deep_at_most_and_a_childs_error_raises_in_on_step() -> None:
    class Top(Deeper):
        async def on_step(self, step: Step) -> None:
            try:
                await self.branch(Deeper)
            except RuntimeError as error:
                errors.append(str(error))

    errors: list[str] = []
    model = Script(*[SEARCH] * 4, finish("ok"))
    assert agent_of(model, base=Top)() == "ok"
    assert errors == ["branch: deeper than 3 modules"]
    assert [request.scope for request in model.requests] == ["", "/Deeper", "/Deeper/Deeper", "/Deeper/Deeper/Deeper", ""]

    def plain(self: Any, step: Step) -> None:
        with pytest.raises(ParseError):
            self.branch(Review)

    assert agent_of(Script(SEARCH, BAD, BAD, BAD, finish("ok")), plain)(question="?").answer == "ok"
    with pytest.raises(ProviderError):
        agent_of(Script(SEARCH, ProviderError("down")), lambda self, step: self.branch(Review))(question="?")


@row("B3-24")
def test_concurrent_branches_have_scopes_of_their_own_and_count_on_the_same_model() -> None:
    async def on_step(self: Any, step: Step) -> None:
        results.extend(await asyncio.gather(*[self.branch(Review) for _ in range(3)]))

    results: list[Any] = []
    model = Script(SEARCH, finish("a"), finish("b"), finish("c"), finish("d"))
    agent_of(model, on_step)(question="?")
    assert [request.scope for request in model.requests] == ["", "/Review", "/Review-2", "/Review-3", ""]
    assert {result.answer for result in results} == {"a", "b", "c"}


@row("B3-24")
def test_a_child_that_names_a_model_is_asked_through_it_and_takes_inputs() -> None:
    own = Script(finish("own"))

    class Named(Review):
        model = own
        initial_input = QuestionInput

    def on_step(self: Any, step: Step) -> None:
        self.branch(Named, question="really?")

    agent_of(Script(SEARCH, finish()), on_step)(question="?")
    assert "really?" in own.requests[0].messages[-1].content


@row("S3-35")
def test_history_and_branch_belong_to_a_call() -> None:
    agent = agent_of(Script())
    with pytest.raises(RuntimeError, match="history"):
        _ = agent.history
    with pytest.raises(RuntimeError, match="history"):
        agent.history = []
    with pytest.raises(RuntimeError, match="branch"):
        agent.branch(Review)

    async def main() -> None:
        done = agent_of(Script(finish()))
        await done.acall(question="?")
        with pytest.raises(RuntimeError, match="history"):
            _ = done.history

    run_sync(main())


@row("S3-36")
def test_cancelling_a_call_ends_the_branch_that_a_plain_on_step_waits_for() -> None:
    class Stuck(Script):
        async def complete(self, request: Request) -> Reply:
            if request.scope:
                inside.set()
                await asyncio.sleep(60)
            return SEARCH

    ended = threading.Event()

    def on_step(self: Any, step: Step) -> None:
        try:
            self.branch(Review)
        finally:
            ended.set()

    async def main() -> None:
        before = asyncio.all_tasks()
        task = asyncio.create_task(agent_of(Stuck(), on_step).acall(question="?"))
        await inside.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()
        assert asyncio.all_tasks() == before

    inside = asyncio.Event()
    run_sync(main())
    assert ended.wait(5)


@row("S3-36")
def test_a_branch_that_an_async_on_step_leaves_running_ends_with_the_call() -> None:
    class Slow(Script):
        async def complete(self, request: Request) -> Reply:
            if request.scope:
                inside.set()
                await asyncio.sleep(60)
            return await super().complete(request)

    async def on_step(self: Any, step: Step) -> None:
        left.append(asyncio.create_task(self.branch(Review)))
        await inside.wait()

    async def main() -> None:
        before = asyncio.all_tasks()
        assert (await agent_of(Slow(SEARCH, finish("ok")), on_step).acall(question="?")).answer == "ok"
        assert left[0].cancelled()
        assert asyncio.all_tasks() == before

    left: list[asyncio.Task[Any]] = []
    inside = asyncio.Event()
    run_sync(main())


@row("S3-36")
def test_a_hook_that_outlives_its_cancelled_call_cannot_branch() -> None:
    at_work, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def on_step(self: Any, step: Step) -> None:
        at_work.set()
        go_on.wait(5)
        try:
            self.branch(Review)
        except asyncio.CancelledError as error:
            raised.append(error)
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.create_task(agent_of(Script(SEARCH), on_step).acall(question="?"))
        await asyncio.to_thread(at_work.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_sync(main())
    go_on.set()
    assert ended.wait(5)
    assert len(raised) == 1


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError()])
@row("G-3")
def test_finish_budget_and_cancellation_leave_through_a_branch(leaving: BaseException) -> None:
    with pytest.raises(type(leaving)):
        agent_of(Script(SEARCH, leaving), lambda self, step: self.branch(Review))(question="?")
