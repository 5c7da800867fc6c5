"""Limits for tools stand where a user would look for them, and outside of a comparison there are none unless they are set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.helpers import Script, answer, call
from tests.loops.looking import looks_once, watched_limits
from whichloop.loops.bare import Bare, History
from whichloop.loops.bare_standalone import ToolRegistry, run_agent
from whichloop.loops.finish import module, tool
from whichloop.loops.phased import Agent, Phased, PhaseTask, ToolCallStatus, ToolExecutor, ToolExecutorOptions
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop, MultiToolRegistry
from whichloop.models.metering import MeteredToolbox
from whichloop.protocol import Observation, Query, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.tools import DEFAULT_MAX_CHARS, DEFAULT_TIME_LIMIT_S, bounded_toolbox

LONG = "x" * 30_000
CUT = "x" * 7 + "... (truncated, 30000 characters in all)"


async def look() -> str:
    """Look."""
    return LONG


def looks_and_answers(history: History, step: int) -> str:
    return answer("done") if step else call("look")


def test_a_registered_function_has_the_limits_that_it_is_registered_with(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    for seconds, chars, check_types, read in ((None, None, False, LONG), (70, 7, False, CUT), (70, 7, True, CUT)):
        limits.clear()
        registry = ToolRegistry()
        registry.register(time_limit_s=seconds, max_chars=chars)(look)
        result = run_agent("Q", llm_func=looks_and_answers, registry=registry, config=Bare(check_types=check_types))
        assert read in result["history"][2]["content"]
        assert {limit for limit in limits if limit is not None} == ({seconds} if seconds else set())


def test_run_agent_takes_limits_for_all_tools_from_its_config(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    registry = ToolRegistry()
    registry.register()(look)
    config = Bare(tool_timeout_s=70, tool_max_chars=7)
    result = run_agent("Q", llm_func=looks_and_answers, registry=registry, config=config)
    assert CUT in result["history"][2]["content"]
    assert 70 in limits


def read_by(model: Script) -> str:
    return "\n".join(message.content for request in model.requests for message in request.messages)


def test_a_module_has_limits_and_so_has_a_tool_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    own = tool(name="look", time_limit_s=80, max_chars=9)(_another())

    def run(**attributes: Any) -> str:
        limits.clear()
        model = looks_once()
        made = type("Looks", (module,), {"model": model, "max_steps": 4} | attributes)
        made()()
        return read_by(model)

    assert LONG in run(tools=[look])
    assert not [limit for limit in limits if limit is not None]
    assert CUT in run(tools=[look], tool_timeout_s=70, tool_max_chars=7)
    assert 70 in limits
    assert "x" * 9 + "... (truncated" in run(tools=[own], tool_timeout_s=70, tool_max_chars=7)
    assert 80 in limits
    with pytest.raises(ValueError, match="tool_timeout_s"):
        run(tools=[look], tool_timeout_s=0)


def _another() -> Any:
    async def look() -> str:
        """Look."""
        return LONG

    return look


def test_functions_of_a_registry_have_the_managers_limits_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    registry = MultiToolRegistry()
    registry.register(look)
    for seconds, chars, read in ((None, None, LONG), (70, 7, CUT)):
        limits.clear()
        model = looks_once()
        agent = ManualAgentLoop(registry, response_style=None, model=model)
        ActivityManager(agent, registry, tool_timeout_s=seconds, tool_max_chars=chars).run_activity("Q")
        assert read in read_by(model)
        assert {limit for limit in limits if limit is not None} == ({seconds} if seconds else set())


def test_an_executor_and_an_agent_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    config = Phased(tool_timeout_s=70, tool_max_chars=7)
    executor = ToolExecutor(ToolExecutorOptions([look], tool_timeout_s=70, tool_max_chars=7))
    for made in (executor, Agent([look], looks_once(), config)):
        limits.clear()
        task = PhaseTask("t1", "Look.", toolCalls=[ToolCallStatus("look", {})])
        assert run_sync(made.execute_tools(task, "q"))
        assert [(done.output, done.max_chars) for done in task.toolCalls or ()] == [(LONG, 7)]
        assert 70 in limits
    with pytest.raises(ValueError, match="tool_max_chars"):
        ToolExecutorOptions([look], tool_max_chars=0)


def test_a_guard_around_a_loop_leaves_its_limits_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = watched_limits(monkeypatch)
    model = looks_once()
    box = Toolbox([look])
    run_sync(RepeatGuard(Bare(tool_timeout_s=70, tool_max_chars=7)).run(Query("Q"), box, model))
    assert CUT in read_by(model)
    assert 70 in limits
    assert (box.time_limit_s, box.max_chars) == (None, None)


def test_a_comparison_sets_limits_of_its_own() -> None:
    class Ear:
        def tool_call(self, *told: Any) -> None: ...

    tools = [Tool.from_function(look)]
    for box in (MeteredToolbox(tools, Ear()), bounded_toolbox(tools)):  # type: ignore[arg-type]  # a listener to calls only
        assert (box.time_limit_s, box.max_chars) == (DEFAULT_TIME_LIMIT_S, DEFAULT_MAX_CHARS) == (30.0, 20_000)


@pytest.mark.parametrize("make", [Bare, Phased])
def test_a_toolbox_of_ones_own_keeps_its_state_under_a_loops_limits(make: Any) -> None:
    class Counts(Toolbox):
        made = 0

        async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
            self.made += 1
            return await super().call(call, validate=validate)

    box, model = Counts([look]), looks_once()
    run_sync(make(tool_max_chars=7).run(Query("Q"), box, model))
    assert box.made == 1
    assert CUT in read_by(model)


def test_a_tool_that_calls_tools_itself_does_so_under_their_own_limits() -> None:
    inner = Toolbox([look])

    async def outer() -> str:
        """Look."""
        return str(len((await inner.call(ToolCall("look", {}))).data))

    model = looks_once()
    run_sync(Bare(tool_max_chars=7).run(Query("Q"), Toolbox([Tool("look", "", {"type": "object"}, outer)]), model))
    assert '"30000"' in read_by(model)
