"""The design as a loop: one frozen configuration, from which a run builds agent and manager over its own tools and model.

The docstring of the package (`__init__.py`) follows a run from the top.

Rows such as G-3 are those of docs/conformance.md.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache, reduce
from typing import Any, ClassVar, Literal, NoReturn, Self

import dspy

from whichloop.dspy_seam import ThroughPredictor, program_of, with_prompt
from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import ToolSettings, checked_options
from whichloop.protocol import SILENT, AnswerT, Model, Observer, Outcome, Program, Query, RunsSync, StopReason, Tool, Toolbox
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.events import ANSWERS_ONLY
from whichloop.protocol.loop import CallsIn
from whichloop.protocol.program import merged, repr_with_program
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_here

from .agent import ManualAgentLoop
from .execution import ToolboxRegistry
from .manager import Activity, ActivityManager
from .state import AgentOptions, ExecutionMode, FinishWithTools, HistoryAs, ManagerOptions, check_choice

_PLACES: Mapping[str, tuple[str, ...]] = {
    "reasoner": ("agent_reasoner", "reasoner"),
    "history_summarizer": ("agent_reasoner", "history_summarizer"),
    "entry_summarizer": ("entry_summarizer",),
    "validator": ("agent_reasoner", "output_validator"),
    "recovery": ("error_recovery", "recovery_planner"),
    "formatter": ("response_formatter", "formatter"),
}


def predictor_of(agent: ManualAgentLoop, name: str) -> Any:
    return reduce(getattr, _path(agent, name), agent)


def with_prompts(agent: ManualAgentLoop, program: Program) -> ManualAgentLoop:
    """Return the same agent with other prompts; what is not named is shared."""
    for name, prompt in program.items():
        agent = _put(agent, _path(agent, name), with_prompt(predictor_of(agent, name), prompt))
    return agent


def _path(agent: ManualAgentLoop, name: str) -> tuple[str, ...]:
    """Return the attributes that lead to a predictor; a chain of thought holds its predictor in `predict`."""
    path = _PLACES[name]
    return (*path, "predict") if isinstance(reduce(getattr, path, agent), dspy.ChainOfThought) else path


def _put(owner: Any, path: Sequence[str], predictor: Any) -> Any:
    """Return a copy of the owner with the predictor in its place."""
    name, *rest = path
    copied = copy.copy(owner)
    setattr(copied, name, _put(getattr(owner, name), rest, predictor) if rest else predictor)
    return copied


logger = logger_of(__name__)

_WITHOUT_ANSWER = frozenset({StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW})
_OWN_WORDS = frozenset({StopReason.MAX_STEPS, StopReason.TERMINATED, StopReason.RECOVERY_FAILED, StopReason.PARSE_FAILED})
"""Stops whose final sentence no model wrote."""


@checked_options
@dataclass(frozen=True, slots=True)
class Stateless(ToolSettings, RunsSync):
    """A stateless agent decides, a manager outside executes. Raises ValueError for an option out of its range."""

    max_iterations: int = 10
    """Most decisions, including the one that ends the run."""
    execution_mode: ExecutionMode = "sequential"
    """sequential; parallel where the model says it is safe; selective: by priority, a search's success skips other searches."""
    enable_error_recovery: bool = True
    """A failed call goes to a planner instead of to the next decision."""
    response_style: Literal["concise", "detailed"] | None = "concise"
    """Style in which a separate call puts the answer; None: the answer as decided, without that call."""
    include_confidence: bool | None = None
    """The confidence is put under the answer; None: in the detailed style only."""
    finish_with_tools: FinishWithTools = "stop"
    """A decision that stops and calls tools: drop the calls (stop), run them and stop (run_first), or decide again (ask_again)."""
    constrain_names: bool = False
    """The reply's format admits the known tools' names only; otherwise an unknown one is an error result."""
    validate_output: bool = False
    """A separate call judges each decision; its verdict is noted and changes nothing."""
    told_max_iterations: int | None = None
    """The limit that the model is told; None: the one that holds."""
    max_empty_decisions: int | None = 3
    """Decisions in a row that neither call nor stop, after which the run ends; None: any number."""
    max_recovery_rounds: int = 2
    """Recoveries in a row without a success, after which errors go to the next decision."""
    max_history_length: int | None = 10
    """Entries beyond which the older half of the history is summarised; None: never."""
    history_as: HistoryAs = "prose"
    """Earlier iterations as one text (prose), results cut short, or as messages, results whole."""
    manager: type[ActivityManager] = field(default=ActivityManager, repr=False, compare=False, metadata={"option": False})
    """The class that runs the loop; a subclass has its own rules."""
    program: StatelessProgram | ManualAgentLoop | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """The agent or program whose predictors are used; None: the design's own."""

    def __post_init__(self) -> None:
        check_choice("response_style", self.response_style, ("concise", "detailed", None))
        agent_options, _ = self.agent_options, self.manager_options  # both are checked when they are made
        if self.program is not None:
            program_options = _agent_of(self).options
            for item in fields(AgentOptions):
                agent_value, program_value = getattr(agent_options, item.name), getattr(program_options, item.name)
                if agent_value != program_value:
                    raise ValueError(f"{item.name} must be {program_value!r} as in the program, not {agent_value!r}")

    @property
    def agent_options(self) -> AgentOptions:
        """The options that are the agent's."""
        return AgentOptions(**_shared_with(AgentOptions, self))

    @property
    def manager_options(self) -> ManagerOptions:
        """The options that are the manager's."""
        return ManagerOptions(**_shared_with(ManagerOptions, self))

    name: ClassVar[str] = "stateless"
    calls_in: ClassVar[CallsIn] = "text"
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        reached = {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.PARSE_FAILED, *_WITHOUT_ANSWER}
        if self.max_empty_decisions is not None and self.max_empty_decisions <= self.max_iterations:
            reached.add(StopReason.ERROR_VALVE)
        if self.enable_error_recovery and self.max_recovery_rounds > 0 and self.max_iterations > 1:
            reached.add(StopReason.RECOVERY_FAILED)
        if self.manager._should_terminate is not ActivityManager._should_terminate:
            reached.add(StopReason.TERMINATED)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """One per kind of request that this configuration makes."""
        used_by_name = {
            "reasoner": True,
            "history_summarizer": self.history_as == "prose",
            "entry_summarizer": self.max_history_length is not None,
            "validator": self.validate_output,
            "recovery": self.enable_error_recovery and self.max_recovery_rounds > 0,
            "formatter": self.response_style is not None,
        }
        agent = _agent_of(self)
        return program_of({name: predictor_of(agent, name) for name, is_asked in used_by_name.items() if is_asked})

    def with_predictors(self, program: Program) -> Self:
        """Return the same loop with other prompts. Raises ValueError for a predictor that it does not have."""
        return replace(self, program=with_prompts(_agent_of(self), merged(self.predictors, program)))

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_iterations=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        registry = ToolboxRegistry(tools)
        agent = _agent_of(self).for_run(registry, model, observer, takes_null=query.takes_null)
        manager = self.manager(agent, registry, **_shared_with(ManagerOptions, self), observer=observer)
        manager.refusal = None if query.held_to is None else query.problem
        activity = await manager.carry_on(manager.new_state(_asked(query)))
        if activity.stop is StopReason.CRASHED:
            _raise_cause(activity)
        return _outcome(activity, query)


def _shared_with(options: type[AgentOptions | ManagerOptions], config: Stateless) -> dict[str, Any]:
    """Return those of a configuration's options that are also options of its agent or of its manager."""
    return {item.name: getattr(config, item.name) for item in fields(options)}


def _asked(query: Query) -> str:
    """Return the question, and the form of its answer if the query has a schema."""
    if query.schema is None:
        return query.full_text
    return f"{query.full_text}\n\nThe final response must be JSON that follows this schema: {canonical_json(query.schema)}"


def _raise_cause(activity: Activity) -> NoReturn:
    """Raise the cause of a crash: a bug is not behaviour of a model or a tool (row G-3)."""
    raise activity.cause or RuntimeError(activity.final_response)


def _outcome(activity: Activity, query: Query) -> Outcome:
    state = activity.state
    text = None if activity.stop in _WITHOUT_ANSWER else activity.final_response
    answer = text if activity.answer is None else activity.answer
    confidence = state.last_confidence if activity.stop is StopReason.FINISHED else None
    details: dict[str, Any] = {
        "status": activity.status,
        "final_response": text,
        "total_tool_calls": state.total_tool_calls,
        "tools_used": list(state.tools_used),
        "state": state,
    }
    if activity.cause is not None:
        details["error"] = str(activity.cause)
        logger.info("the run ends as %s: %s", activity.stop, activity.cause)
    gave_up = activity.answer is None and activity.stop in _OWN_WORDS
    return Outcome(_typed(answer, query.schema), activity.stop, state.iteration_count, confidence, details, gave_up)


def _typed(answer: str | None, schema: Mapping[str, Any] | None) -> Any:
    """Return the JSON value that a text states, if the query has a schema; other text stays text."""
    if answer is None or schema is None or schema.get("type") == "string":
        return answer
    try:
        return json.loads(answer, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return answer


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


class StatelessProgram(dspy.Module):
    """The whole design as a dspy.Module: call it, save it, hand it to a teleprompter.

    Raises ValueError for `history_as="messages"`: DSPy's own call has no place for them.
    """

    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), config: Stateless | None = None, schema: Any = None
    ) -> None:
        """`config`: the design's options. `schema`: JSON schema of the answer."""
        super().__init__()
        self.toolbox = Toolbox(tools)
        self.config = config or Stateless()
        self.schema = schema
        if self.config.history_as == "messages":
            raise ValueError("history_as must be 'prose' in a program, not 'messages': DSPy's own call has no place for them")
        self.agent = ManualAgentLoop(self.toolbox, **asdict(self.config.agent_options))

    def forward(self, query: str) -> Any:
        return run_here(self.aforward(query))

    async def aforward(self, query: str) -> Any:
        """Return a dspy.Prediction of `answer`, `confidence`, `stop` and `state`, from the model that DSPy is configured with."""
        loop = replace(self.config, program=self)
        outcome = await loop.run(Query(query, schema=self.schema), self.toolbox, ThroughPredictor(), ANSWERS_ONLY)
        return dspy.Prediction(
            answer=outcome.answer, confidence=outcome.confidence, stop=outcome.stop.value, state=outcome.details["state"]
        )


def _agent_of(config: Stateless) -> ManualAgentLoop:
    program = config.program
    if program is None:
        return _default_agent(config)
    return program.agent if isinstance(program, StatelessProgram) else program


@lru_cache(maxsize=64)
def _default_agent(config: Stateless) -> ManualAgentLoop:
    """Return the agent of a configuration, made once: it keeps nothing of a run."""
    return ManualAgentLoop(Toolbox(), **asdict(config.agent_options))
