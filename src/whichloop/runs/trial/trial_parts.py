"""What one trial runs with: the task's tools and the model, and what counts, guards and records what the loop does with them."""

from __future__ import annotations

from collections.abc import Mapping

from whichloop.datasets.task import Environment
from whichloop.models.metering import MeteredToolbox
from whichloop.models.receipts import Truth
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Toolbox
from whichloop.protocol.current_call import ID_DIGITS
from whichloop.protocol.digest import digest
from whichloop.runs.schedule import Trial
from whichloop.runs.trial_models import RequestHooks, TrialModel, model_for_trial

from .context_use import RetentionCount
from .guard import Guard
from .played_user import PlayedUser
from .pricing import Pricing
from .recorder import Recorder
from .script import script_of
from .setting import TrialContext
from .trial_meter import TrialClock, TrialMeter

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
