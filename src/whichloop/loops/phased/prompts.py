"""The prompts: one mapping from phase to text, and the texts of tasks, results and failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from whichloop.protocol import (
    Message,
    Predictor,
    Program,
    Request,
    Tool,
    Understanding,
    own_prompt,
    render_value,
)
from whichloop.protocol.program import merged
from whichloop.protocol.values import cap

from .state import Phase, PhaseTask, Reflection, TaskStatus, ToolCallStatus

REASON_PROMPT = "reason"
SUMMARIZE_PROMPT = "summarize"
CONTEXTS_PROMPT = "contexts"
NO_DATA = "No data was gathered."

PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        Phase.UNDERSTAND: "You read a question before it is worked on. State what is wanted, and the names and things it is about.",
        Phase.PLAN: (
            "You plan how to answer a question: 2 to 5 tasks, each one thing to find out with tools (use_tools) or to conclude "
            "from what was found (reason). Tasks that do not depend on each other run at the same time. Plan only what is still "
            "missing; where nothing is missing, plan no task."
        ),
        Phase.EXECUTE: (
            "You choose the tool calls for one task. Call every tool that this task needs, with its arguments, and none for other "
            "tasks. Where it needs no tool, answer with the word none."
        ),
        Phase.REFLECT: "You judge whether what was gathered is enough to answer the question. If not, say what is missing.",
        Phase.ANSWER: "You answer the question from what was gathered, briefly and completely. Say what is not known.",
        REASON_PROMPT: "You work on one task by thinking, from what was gathered. Give the result and the figures it rests on.",
        SUMMARIZE_PROMPT: "You summarize what a tool gave, in view of the question. Keep every figure, name and reference.",
        CONTEXTS_PROMPT: "You choose which of the results the answer to the question needs.",
    }
)
"""System texts by phase (EXECUTE: the choice of tools), and those of the three requests that are not a phase."""


def merged_prompts(changed: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the default texts with some replaced. Raises ValueError for an unknown name."""
    unknown = [name for name in changed or () if name not in PROMPTS]
    if unknown:
        raise ValueError(f"prompts: {unknown[0]!r} is none of {', '.join(map(str, PROMPTS))}")
    return {**PROMPTS, **(changed or {})}


def sections(*parts: tuple[str, str]) -> str:
    """Return titled paragraphs without those that have no text."""
    return paragraphs(*(f"{title}:\n{text}" for title, text in parts if text))


def paragraphs(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def format_tool(tool: Tool) -> str:
    """Return one tool's name, description, and arguments as JSON."""
    spec = tool.spec
    return f"- {spec.name}: {spec.description} Arguments: {render_value(spec.parameters.get('properties', {}))}"


def understanding_text(understanding: Understanding | None) -> str:
    if understanding is None:
        return ""
    about = f"\nAbout: {', '.join(understanding.entities)}" if understanding.entities else ""
    return f"{understanding.intent}{about}"


def call_text(tool: str, args: Mapping[str, object]) -> str:
    return f"{tool}({render_value(args)})"


def results_text(tasks: Iterable[PhaseTask]) -> str:
    """Return the tasks' results in their order: summaries if there are any, else whole results."""
    lines = []
    for task in tasks:
        lines += [f"[{task.id}] {call_text(call.tool, call.args)}:\n{shown_result(call)}" for call in completed(task)]
        lines.append(thoughts_text([task]))
    return "\n".join(filter(None, lines))


def thoughts_text(tasks: Iterable[PhaseTask]) -> str:
    """Return the conclusions of reason tasks."""
    return "\n".join(f"[{task.id}] {task.output}" for task in tasks if task.output)


def completed(task: PhaseTask) -> list[ToolCallStatus]:
    return [call for call in task.toolCalls or () if call.status is TaskStatus.COMPLETED]


def shown_result(call: ToolCallStatus) -> str:
    """Return what prompts show of a completed call: its summary, or its result if the summary is blank."""
    return call.summary if call.summary and call.summary.strip() else cap(call.output or "", call.max_chars)


def failures_text(tasks: Iterable[PhaseTask]) -> str:
    """Return what failed, in the tasks' order, by id and call: a description would invite a model to do that task here."""
    lines = []
    for task in tasks:
        calls = [call for call in task.toolCalls or () if call.status is TaskStatus.FAILED]
        lines += [f"[{task.id}] {call_text(call.tool, call.args)} failed: {call.error}" for call in calls]
        if task.error:
            lines.append(f"[{task.id}] Failed to gather data: {task.error}")
    return "\n".join(lines)


def tasks_text(tasks: Iterable[PhaseTask]) -> str:
    return "\n".join(f"[{task.id}] {task.status}: {task.description}" for task in tasks)


def guidance_text(reflection: Reflection | None) -> str:
    """Return the whole judgement of reflect."""
    if reflection is None:
        return ""
    missing = [f"- missing: {item}" for item in reflection.missingInfo]
    steps = [f"- next: {item}" for item in reflection.suggestedNextSteps]
    return "\n".join(filter(None, [reflection.reasoning, *missing, *steps]))


SELECT_TOOLS = "select"
PREDICTORS: Mapping[str, tuple[str, str]] = {
    "understand": (Phase.UNDERSTAND, "understanding"),
    "plan": (Phase.PLAN, "tasks"),
    SELECT_TOOLS: (Phase.EXECUTE, "calls"),
    "reason": (REASON_PROMPT, "conclusion"),
    "reflect": (Phase.REFLECT, "judgement"),
    "contexts": (CONTEXTS_PROMPT, "choice"),
    "answer": (Phase.ANSWER, "final_answer"),
    "summarize": (SUMMARIZE_PROMPT, "summary"),
}
"""Predictor → its text among PROMPTS, and its output field, which is never `answer`: labelled examples have that field."""


def request_of(predictor: Predictor, text: str, codec: Any, form: str = "", **rest: Any) -> Request:
    """Return a request. `text`: the user message. `form`: what follows the instructions. `rest`: fields of the request."""
    system = f"{predictor.shown.text}\n\n{form}" if form else predictor.shown.text
    return predictor.request(predictor.opening(system), [Message("user", text)], codec, **rest)


def program_of(prompts: Mapping[str, str] | None, changed: Program | None) -> Program:
    """Return all predictors. `prompts`: texts that replace some of PROMPTS. `changed`: states that replace both.

    Raises ValueError for an unknown name.
    """
    texts = merged_prompts(prompts)
    own = {name: own_prompt(texts[text], output) for name, (text, output) in PREDICTORS.items()}
    return merged(own, changed or {})


def predictors_of(prompts: Mapping[str, str] | None, changed: Program | None) -> Mapping[str, Predictor]:
    """Return all predictors by name, ready to ask."""
    return _OWN if prompts is None and changed is None else _opened(program_of(prompts, changed))


def _opened(program: Program) -> Mapping[str, Predictor]:
    return {name: Predictor(name, prompt) for name, prompt in program.items()}


_OWN = _opened(program_of(None, None))
