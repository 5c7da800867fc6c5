"""The prompts: one mapping from phase to text, and the texts of tasks, results and failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from whichloop.protocol import Message, Model, Predictor, Program, Reply, Tool, Understanding, own_prompt, render_value
from whichloop.protocol.model import shown_parameters
from whichloop.protocol.program import merged
from whichloop.protocol.wire import MoveT, ReadsMoves

from .state import Phase, PhaseTask, Reflection, TaskStatus

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
        "reason": "You work on one task by thinking, from what was gathered. Give the result and the figures it rests on.",
        "summarize": "You summarize what a tool gave, in view of the question. Keep every figure, name and reference.",
        "contexts": "You choose which of the results the answer to the question needs.",
    }
)
"""System texts by phase (EXECUTE: the choice of tools), and those of the three requests that are not a phase."""
PREDICTORS: Mapping[str, tuple[str, str]] = {
    "understand": (Phase.UNDERSTAND, "understanding"),
    "plan": (Phase.PLAN, "tasks"),
    "select": (Phase.EXECUTE, "calls"),
    "reason": ("reason", "conclusion"),
    "reflect": (Phase.REFLECT, "judgement"),
    "contexts": ("contexts", "choice"),
    "answer": (Phase.ANSWER, "final_answer"),
    "summarize": ("summarize", "summary"),
}
"""Predictor → its text among PROMPTS, and its output field, which is never `answer`: labelled examples have that field."""


def program_of(changed: Program | None) -> Program:
    """Return all predictors. `changed`: those that replace the design's own. Raises ValueError for an unknown name."""
    own = {name: own_prompt(PROMPTS[text], output) for name, (text, output) in PREDICTORS.items()}
    return merged(own, changed)


def predictors_of(changed: Program | None) -> Mapping[str, Predictor]:
    """Return all predictors by name, ready to ask."""
    return {name: Predictor(name, prompt) for name, prompt in program_of(changed).items()}


async def ask(
    predictor: Predictor, model: Model, codec: ReadsMoves[MoveT], text: str, form: str = "", **rest: Any
) -> tuple[MoveT, Reply]:
    """Ask a predictor, see `Predictor.ask`. `text`: the user message. `form`: what follows the instructions."""
    system = f"{predictor.shown.text}\n\n{form}" if form else predictor.shown.text
    return await predictor.ask(model, codec, predictor.opening(system), [Message("user", text)], **rest)


# --- what requests show ---


def sections(*parts: tuple[str, str]) -> str:
    """Return titled paragraphs without those that have no text."""
    return paragraphs(*(f"{title}:\n{text}" for title, text in parts if text))


def paragraphs(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def format_tool(tool: Tool) -> str:
    """Return one tool's name, description, and arguments as JSON."""
    spec = tool.spec
    return f"- {spec.name}: {spec.description} Arguments: {render_value(shown_parameters(spec.parameters))}"


def understanding_text(understanding: Understanding | None) -> str:
    if understanding is None:
        return ""
    about = f"\nAbout: {', '.join(understanding.entities)}" if understanding.entities else ""
    return f"{understanding.intent}{about}"


def results_text(tasks: Iterable[PhaseTask]) -> str:
    """Return the tasks' results in their order: summaries if there are any, else whole results."""
    lines = []
    for task in tasks:
        lines += [f"[{task.id}] {call}:\n{call.shown}" for call in task.calls(TaskStatus.COMPLETED)]
        lines.append(thoughts_text([task]))
    return "\n".join(filter(None, lines))


def thoughts_text(tasks: Iterable[PhaseTask]) -> str:
    """Return the conclusions of reason tasks."""
    return "\n".join(f"[{task.id}] {task.output}" for task in tasks if task.output)


def failures_text(tasks: Iterable[PhaseTask]) -> str:
    """Return what failed, in the tasks' order, by id and call: a description would invite a model to do that task here."""
    lines = []
    for task in tasks:
        failed = task.calls(TaskStatus.FAILED)
        lines += [f"[{task.id}] {call} failed: {call.error}" for call in failed]
        lines += [f"[{task.id}] Failed to gather data: {task.error}"] if task.error else []
    return "\n".join(lines)


def guidance_text(reflection: Reflection | None) -> str:
    """Return the whole judgement of reflect."""
    if reflection is None:
        return ""
    missing = [f"- missing: {item}" for item in reflection.missingInfo]
    steps = [f"- next: {item}" for item in reflection.suggestedNextSteps]
    return "\n".join(filter(None, [reflection.reasoning, *missing, *steps]))
