"""The options of a run, and the context that its phases and tasks share: what it was given, its progress, how it asks and tells."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import Model, Observer, Program, Query, Reply, Request, Toolbox, Understanding, WireError

from .codecs import JsonCodec, TextAnswerCodec, TextCodec
from .context import ToolContextManager
from .executor import Executor
from .prompts import completed, failures_text, merged_prompts, predictors_of, request_of
from .state import AgentCallbacks, Phase, PhaseTask, Reflection, RunEnd, StoppableModel, TaskStatus, ToolCallStatus, notify

_HOOK: dict[str, Any] = {"option": False}


@dataclass(frozen=True, slots=True)
class PhasedOptions(ToolSettings):
    """The fields of `Phased`.

    Raises ValueError for a limit that leaves nothing to do, and for an unknown rule, layout or prompt.
    """

    max_rounds: int = 5
    """Most rounds of plan, execute and reflect."""
    max_tool_tasks: int | None = None
    """Most tasks of the whole run that may use tools; None for no limit."""
    understand: bool = True
    """Ask first what the question is after."""
    plan: bool = True
    """Ask for a plan in each round; False makes the question itself the only task."""
    reflect: bool = True
    """Judge after each round whether it is enough; False answers after the first."""
    failed_dependency: Literal["run", "skip", "fail"] = "run"
    """What happens to a task when one that it depends on has failed: it is told so, left out, or fails too."""
    tool_layout: Literal["executor", "agent"] = "executor"
    """executor: a task's calls run together. agent: the agent runs them in sequence and summarizes each result."""
    cancel_grace_s: float = 5.0
    """Seconds to wait for tools in threads once the cancellation token is set."""
    callbacks: AgentCallbacks | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Listens to phases, tasks and tool calls."""
    prompts: Mapping[str, str] | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Texts that replace some of PROMPTS."""
    cancellation_token: asyncio.Event | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Once it is set, the run ends without an answer. As any asyncio.Event it serves the runs of one event loop."""
    executor: Executor | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Replaces the layout's own executor; it brings its tools and its model, which the harness does not see."""
    select_model: Model | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """A smaller model for the choice of tools."""
    context_manager: ToolContextManager | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Where results are kept; None: in memory, for this run."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Instructions and demonstrations instead of `prompts`."""

    def __post_init__(self) -> None:
        ToolSettings.__post_init__(self)
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, not {self.max_rounds}")
        if self.max_tool_tasks is not None and self.max_tool_tasks < 0:
            raise ValueError(f"max_tool_tasks must be at least 0 or None, not {self.max_tool_tasks}")
        if not self.cancel_grace_s >= 0:
            raise ValueError(f"cancel_grace_s must be at least 0, not {self.cancel_grace_s}")
        if self.failed_dependency not in ("run", "skip", "fail"):
            raise ValueError(f"failed_dependency must be run, skip or fail, not {self.failed_dependency!r}")
        if self.tool_layout not in ("executor", "agent"):
            raise ValueError(f"tool_layout must be executor or agent, not {self.tool_layout!r}")
        merged_prompts(self.prompts)


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What one run is given: the query, and the objects that it works with."""

    query: Query
    tools: Toolbox
    model: StoppableModel
    executor: Executor
    contexts: ToolContextManager
    observer: Observer
    ending: RunEnd


@dataclass(slots=True)
class PhaseProgress:
    """The progress of a run."""

    phase: Phase | None = None
    phases: list[Phase] = field(default_factory=list)
    understanding: Understanding | None = None
    round: int = 0
    tasks: list[PhaseTask] = field(default_factory=list)
    """The tasks of all rounds."""
    tool_tasks: int = 0
    """How many use_tools tasks have been started."""
    limited: bool = False
    """Whether a task was refused because the tool tasks were used up."""
    remark: str = ""
    """Why the last plan could not be read; empty once one was."""
    reflection: Reflection | None = None
    chosen: list[str] = field(default_factory=list)
    """Labels of the results that the answer request held."""


class RunContext:
    """One run as its phases and tasks see it. All its state is its own."""

    def __init__(self, config: PhasedOptions, inputs: RunInputs) -> None:
        self.config = config
        self.inputs = inputs
        self.progress = PhaseProgress()
        self.query_id = uuid.uuid4().hex
        self.predictors = predictors_of(config.prompts, config.program)
        self.callbacks = config.callbacks or AgentCallbacks()

    @property
    def question(self) -> str:
        return self.inputs.query.full_text

    @property
    def ending(self) -> RunEnd:
        return self.inputs.ending

    @property
    def results(self) -> list[ToolCallStatus]:
        """All calls that gave a result."""
        return [call for task in self.progress.tasks for call in completed(task)]

    def failures(self, tasks: Sequence[PhaseTask]) -> str:
        """Return what prompts say of these tasks' failures, and of a plan that could not be read."""
        return "\n".join(filter(None, [self.progress.remark, failures_text(tasks)]))

    # --- asking ---

    async def ask(
        self, codec: JsonCodec | TextAnswerCodec | TextCodec, predictor: str, text: str, scope: str = "", *, streamed: bool = False
    ) -> Reply:
        """Ask a predictor; `text` is the user message. Raises ModelError."""
        form, schema = "", None
        if not isinstance(codec, TextAnswerCodec | TextCodec):
            form = codec.form
            schema = codec.schema if self.inputs.model.capabilities.response_schema else None
        request = request_of(self.predictors[predictor], text, codec, form, response_schema=schema, scope=scope)
        return await (self._stream(request) if streamed else self.inputs.model.complete(request))

    async def _stream(self, request: Request) -> Reply:
        text, reply = "", None
        async for chunk in self.inputs.model.stream(request):
            text += chunk.text
            reply = chunk.reply or reply
            if chunk.text:
                notify(self.callbacks.on_answer_stream, chunk.text)
        return reply or Reply(text)

    # --- telling ---

    def enter(self, phase: Phase) -> None:
        """Go over to a phase. Raises CancelledError once the token is set."""
        if self.progress.phase is not None:
            notify(self.callbacks.on_phase_complete, self.progress.phase)
        if phase is not Phase.COMPLETE:  # an answer that exists is not thrown away
            self.ending.checkpoint()
        self.progress.phase = phase
        self.progress.phases.append(phase)
        self.inputs.observer.note("phase", phase=phase.value, round=self.progress.round)
        notify(self.callbacks.on_phase_start, phase)

    def set_status(self, task: PhaseTask, status: TaskStatus) -> None:
        task.status = status
        notify(self.callbacks.on_task_update, task.id, status)

    def fail(self, task: PhaseTask, error: str) -> None:
        task.error = error
        self.set_status(task, TaskStatus.FAILED)
        self.inputs.observer.note("task_failed", task=task.id, error=error)

    def note_unreadable(self, phase: Phase, error: WireError) -> None:
        self.inputs.observer.note("unreadable", phase=phase.value, error=str(error))

    @property
    def is_cancelled_by_token(self) -> bool:
        """Whether the run ends because of its token, and not because of a cancellation from outside."""
        token, current = self.ending.token, asyncio.current_task()
        return token is not None and token.is_set() and not (current is not None and current.cancelling())
