"""What the tests of the stateless design share: its replies as a model writes them, and agent and manager made for a test."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from tests.loops.helpers import add
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop, Stateless
from whichloop.loops.stateless.state import ActionDecision, ActionType, ConversationEntry, ConversationState
from whichloop.protocol import SILENT, Observer, Outcome, Query, Toolbox, run_sync


def fail(why: str = "broken") -> str:
    """Always fails."""
    raise ValueError(why)


def search(query: str) -> str:
    """Search the web."""
    return f"found 3 pages on {query}"


def image_search(query: str) -> str:
    """Search for images."""
    return f"an image of {query}"


TOOLS = (add, fail, search, image_search)

BAD = "I think the answer is 3."


def section(**fields: Any) -> str:
    parts = [f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])


def think(*calls: tuple[str, dict[str, Any]], final: str | None = None, **changes: Any) -> str:
    """A decision: the calls, else the end with `final`."""
    said: dict[str, Any] = {
        "overall_reasoning": "Overall.",
        "confidence": 0.9,
        "should_use_tools": bool(calls),
        "tool_calls": [{"tool_name": name, "parameters": args, "reasoning": "Because."} for name, args in calls] or None,
        "parallel_safe": True,
        "should_continue": final is None,
        "continuation_reasoning": "Continuation.",
        "final_response": final,
    }
    return section(reasoning="Step by step.", reasoning_output=said | changes)


def recover(strategy: str, details: str = "D.", **more: Any) -> str:
    return section(reasoning="R.", recovery_strategy={"strategy_type": strategy, "details": details} | more)


def formatted(text: str) -> str:
    return section(formatted_response=text)


def summary(text: str, *points: str) -> str:
    return section(summary=text, key_points=list(points))


ADD = ("add", {"a": 1, "b": 2})

FAIL = ("fail", {"why": "broken"})

EMPTY = think()

STOP = think(final="3")


def agent(model: Any = None, *functions: Any, **options: Any) -> ManualAgentLoop:
    return ManualAgentLoop(Toolbox(functions or TOOLS), model=model, **{"response_style": None} | options)


def manager(
    model: Any, *functions: Any, kind: type[ActivityManager] = ActivityManager, agent_options: Any = (), **options: Any
) -> ActivityManager:
    decider = agent(model, *functions, **dict(agent_options))
    return kind(decider, decider.tool_registry, **options)


def activity(
    model: Any, *functions: Any, kind: type[ActivityManager] = ActivityManager, agent_options: Any = (), **options: Any
) -> tuple[dict[str, Any], ConversationState]:
    """One activity to its end: the result, and the state then."""
    made = manager(model, *functions, kind=kind, agent_options=agent_options, **options)
    state = made.new_state("Q", "id")
    return made.continue_activity(state), state


def run(loop: Stateless, model: Any, *functions: Any, observer: Observer = SILENT) -> Outcome:
    return run_sync(loop.run(Query("Q"), Toolbox(functions or TOOLS), model, observer))


PLAIN = Stateless(response_style=None)


def shown(request: Any, name: str) -> str:
    """One input field as a request shows it."""
    rest: str = request.messages[-1].content.partition(f"[[ ## {name} ## ]]\n")[2]
    return rest.partition("\n\n[[ ## ")[0].partition("\n\nRespond with the corresponding output fields")[0]


def system(request: Any) -> str:
    content: str = request.messages[0].content
    return content


def success(name: str, result: Any, **more: Any) -> dict[str, Any]:
    return {"tool_name": name, "status": "success", "result": result, "execution_time": 0.0, "parameters": {}} | more


def error(name: str, text: str = "broken", **more: Any) -> dict[str, Any]:
    return {"tool_name": name, "status": "error", "error": text, "error_type": "ValueError", "parameters": {"why": text}} | more


def entry(iteration: int = 1, summary: str = "add: 3", **more: Any) -> ConversationEntry:
    base: dict[str, Any] = {
        "timestamp": float(iteration),
        "reasoning": f"Because {iteration}.",
        "tool_calls": ["add"],
        "tool_parameters": {"add": {"a": 1, "b": 2}},
        "results": [success("add", 3)],
    }
    return ConversationEntry(iteration=iteration, results_summary=summary, **base | more)


def state(**changes: Any) -> ConversationState:
    return ConversationState(**{"user_query": "Q", "iteration_count": 1} | changes)


def detailed(text: str, points: str) -> str:
    return section(reasoning="R.", formatted_response=text, summary_points=points)


class Watch:
    """How many calls run at once: none ends before `crowd` have begun."""

    def __init__(self, crowd: int = 1) -> None:
        self.crowd = crowd
        self.now = self.most = 0
        self.changed = threading.Condition()

    def work(self, n: int) -> int:
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.most >= self.crowd, 30)
        time.sleep(0.02 * (1 + (n == 0)))  # time for one more than there may be; the first ends last
        with self.changed:
            self.now -= 1
        return n


class Decides:
    """An agent of someone else's: the listed decisions, and no async face."""

    def __init__(self, *decisions: ActionDecision) -> None:
        self.decisions = list(decisions)

    def get_next_action(self, state: ConversationState) -> ActionDecision:
        return self.decisions.pop(0)


def decision(kind: ActionType, **more: Any) -> ActionDecision:
    return ActionDecision(action_type=kind, reasoning="r", **{"confidence": 0.9} | more)
