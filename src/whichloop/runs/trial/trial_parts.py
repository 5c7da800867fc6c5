"""What one trial runs with: the task's tools and the model, and what counts, guards and records what the loop does with them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from whichloop.datasets.task import Environment, HasUser, Task
from whichloop.metrics.arm_info import exceeds
from whichloop.models.cassette import RecordedModel
from whichloop.models.filling import fits, otherwise
from whichloop.models.limits import Waits, waits
from whichloop.models.metering import Budget, Meter, MeteredExchange, MeteredToolbox
from whichloop.models.profiles import Profile
from whichloop.models.receipts import Truth
from whichloop.models.scripted import Script
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Observation, ProviderError, Reply, Request, Tool, Toolbox, ToolCall, Usage, WrappedModel
from whichloop.protocol.digest import digest
from whichloop.protocol.tool_calls import ID_DIGITS
from whichloop.runs.schedule import Trial
from whichloop.runs.trial_models import RequestHooks, TrialModel, TrialModels, model_for_trial, user_for_trial

from .context_use import Pricing, RetentionCount
from .recorder import Recorder
from .setting import TrialContext
from .watchdog import Guard


class TrialClock:
    """The time of one trial."""

    def __init__(self, tunnel: Tunnel | None) -> None:
        """`tunnel`: of a trial with a scripted model; None for a real one."""
        self.started = time.perf_counter()
        self.waits = Waits()
        self.recorded: RecordedModel | None = None
        """The recording that replies come from, if there is one."""
        self._tunnel = tunnel
        self._stopped: float | None = None

    def stop(self) -> None:
        """Count no further time."""
        self._stopped = time.perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds since the trial began, on the wall."""
        return (time.perf_counter() if self._stopped is None else self._stopped) - self.started

    def seconds(self, wall_s: float) -> float:
        """Return simulated time in the tunnel, else wall time without what a provider's failures and our limits cost, and with the
        recorded time of replayed replies."""
        if self._tunnel is None or self._tunnel.real_time:
            replayed_s = 0.0 if self.recorded is None else self.recorded.replayed_s
            return max(0.0, wall_s - self.waits.seconds) + replayed_s  # the two are read off different clocks
        return self._tunnel.simulated_s


class TrialMeter(Meter):
    """The meter of a trial: it refuses a call beyond a limit of the trial, and says whether the last one went beyond.

    A limit in dollars counts as every comparison of costs does: as if nothing had come from a cache or a recording.
    """

    def __init__(self, budget: Budget, run: Meter, recorder: Recorder, clock: TrialClock) -> None:
        """`run`: the meter of the whole run, which counts what is billed."""
        super().__init__(budget, run)
        self._recorder = recorder
        self._clock = clock

    @property
    def exhausted(self) -> str:
        """Why no further call is made, in words; empty while one is.

        A trial that has spent a limit to the last token may go on: its next call decides.
        """
        calls = self.budget.calls
        return f"budget of {calls:,} model calls used up" if calls is not None and self.calls >= calls else self.exceeded

    @property
    def exceeded(self) -> str:
        """The limit beyond which the trial went, in words; empty if it kept to all of them."""
        return next(self._beyond(), "")

    def _beyond(self) -> Iterator[str]:
        budget, usage = self.budget, self._recorder.usage
        if budget.tokens is not None and exceeds(usage.total_tokens, budget.tokens):
            yield f"budget of {budget.tokens:,} tokens exceeded: {usage.total_tokens:,}"
        spent = (usage.cost_usd if usage.nominal_usd is None else usage.nominal_usd) or 0.0
        if budget.dollars is not None and exceeds(spent, budget.dollars):
            yield f"budget of {budget.dollars:.12g} dollars exceeded: {spent:.6g}"
        if budget.seconds is not None and exceeds(seconds := self._clock.seconds(self._clock.wall_s), budget.seconds):
            yield f"budget of {budget.seconds:.12g} seconds exceeded: {seconds:.6g}"


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


class PlayedUser:
    """Plays the user of one trial, if a model is to do that, and counts what it takes.

    Its calls count towards the budget of the run, not towards that of the trial, which is the agent's.
    """

    def __init__(self, models: TrialModels, trial: Trial, run_meter: Meter) -> None:
        self.calls = 0
        self.usage = Usage()
        self._failure = ""
        self._meter = Meter(parent=run_meter)
        self._model = user_for_trial(models, trial, self._meter, self)
        self._is_priced = bool(getattr(models.real.get(models.user or ""), "is_priced", False))

    def play(self, environment: Environment) -> Environment:
        """Return the environment with its user played by the model; as it is where the script answers.

        Raises ValueError for an environment without a user.
        """
        if self._model is None:
            return environment
        if not isinstance(environment, HasUser):
            raise ValueError("a model is to play the user, and the task has none")
        return environment.played_by(_OffTheClock(self._model.metered))

    @property
    def refused(self) -> bool:
        """Whether a call of the user was refused, since the run's budget is used up."""
        return bool(self._meter.refused)

    @property
    def failure(self) -> str:
        """Why the trial says nothing about the agent: the user could not answer. Empty if they could."""
        recorded = None if self._model is None else self._model.recorded
        if recorded is not None and recorded.failure is not None:
            return f"user: {recorded.failure}"
        return self._failure

    def counts(self) -> dict[str, int]:
        """Return what the user took, by name: 0 where the agent never asked them; empty if no model plays the user."""
        counts = {"calls": self.calls, "input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        return {} if self._model is None else counts

    @property
    def cost_usd(self) -> float | None:
        """US dollars billed: 0 if the agent never asked a user whose price is known. None: it is not, or no model plays them."""
        return 0.0 if self._is_priced and not self.calls else self.usage.cost_usd

    # --- what the metered model tells ---

    def exchange(self, exchange: MeteredExchange) -> None:
        """Count one request."""
        self.calls += 1
        if exchange.reply is not None:
            self.usage += exchange.reply.usage or Usage()
        elif not self._failure:
            what = "provider: " if isinstance(exchange.error, ProviderError) else ""
            self._failure = f"user: {what}{exchange.error}"

    def tool_call(self, call: ToolCall, observation: Observation, fault: str | None) -> None:
        """Ignore calls: a user has no tools."""


class _OffTheClock(WrappedModel):
    """A model whose time is not the agent's."""

    async def complete(self, request: Request) -> Reply:
        with waits().counted():
            return await super().complete(request)


MAX_PASSES = 10_000
"""Requests and calls after which a trial with a scripted model has no end: many times what any task takes."""


class TrialParts:
    """What one trial runs with, made anew for it."""

    def __init__(
        self, trial: Trial, setting: TrialContext, environment: Environment, truth: Mapping[str, Truth], user: PlayedUser
    ) -> None:
        """`truth`: what a scripted model goes by, by planned call. `user`: who answers the agent's questions."""
        self.trial = trial
        self.setting = setting
        self.environment = environment
        self.truth = truth
        self.user = user
        self.recorder = Recorder()
        self.tunnel: Tunnel | None = None
        """Where a scripted model meets its faults; None for a real model."""
        if trial.arm.is_scripted:
            assert trial.task.plan is not None
            self.tunnel = Tunnel(real_time=setting.real_time, slow_s=trial.arm.profile_met.slow_s)
            self.tunnel.unknown = tuple(call.id for call in trial.task.plan.calls)
            self.recorder.call_use.planned = {truth[call.id].call: call.id for call in trial.task.plan.calls if call.id in truth}
            self.recorder.context.retention = RetentionCount(trial.task.plan, truth, self.tunnel.ledger.issued)
        self.guard = Guard(None if self.tunnel is None else MAX_PASSES)
        self.tools = MeteredToolbox(
            environment.tools, self.recorder, self.tunnel, time_limit_s=setting.tool_timeout_s, admit=self.guard.admit
        )
        self.tools.ids.run_id = digest([trial.run_seed, *trial.key])[:ID_DIGITS]  # a tool that asks for it is told the same again
        self.recorder.tools = Toolbox(environment.tools)  # not those that tell it: a circle waits for the garbage collector
        self.clock = TrialClock(self.tunnel)
        self.meter = TrialMeter(setting.trial_budget, setting.meter, self.recorder, self.clock)

    def make_model(self) -> TrialModel:
        """Return the model that the loop asks, and have the clock know the recording that answers in its place."""
        trial, models = self.trial, self.setting.trial_models
        script = pricing = None
        if self.tunnel is not None:
            script = script_of(trial.task, self.truth, trial.arm.profile_met, trial.run_seed, trial.repeat, self.tools)
            pricing = None if models.scripted_price is None else Pricing(models.scripted_price)
        hooks = RequestHooks(self.meter, self.recorder, self.guard.admit, pricing)
        model = model_for_trial(models, trial, script, self.tunnel, self.tools.specs, hooks)
        self.clock.recorded = model.recorded
        return model
