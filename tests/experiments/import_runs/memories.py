"""A memory of smolagents, as it writes one."""

from __future__ import annotations

from typing import Any


def step(number: int, calls: Any = (), **more: Any) -> dict[str, Any]:
    made = [{"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": given}} for name, given in calls]
    told: dict[str, Any] = {"step_number": number, "timing": {"start_time": 1.0, "end_time": 3.0, "duration": 2.0}}
    told |= {"model_input_messages": None, "tool_calls": made, "error": None, "model_output": "", "observations": None}
    told |= {"action_output": None, "token_usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}}
    return told | {"is_final_answer": False} | more


MEMORY = [
    {"task": "Where is Ann?", "task_images": None},
    {"plan": "1. find her", "model_input_messages": [], "timing": {"duration": 1.0}, "token_usage": None},
    step(1, [("find", {"name": "An"})], error={"type": "AgentToolExecutionError", "message": "nobody"}),
    step(2, error={"type": "AgentParsingError", "message": "no call in it"}, model_output="find Ann"),
    step(3, [("find", {"name": "Ann"})], observations="room 7"),
    step(4, [("final_answer", {"answer": "room 7"})], action_output="room 7", is_final_answer=True, model_output="I know"),
]
