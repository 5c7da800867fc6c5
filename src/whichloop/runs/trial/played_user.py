"""The user of a trial whom a model plays: what that takes is counted apart from what the agent takes."""

from __future__ import annotations

from whichloop.datasets.task import Environment, HasUser
from whichloop.models.metering import Meter, MeteredExchange
from whichloop.models.waits import waits
from whichloop.protocol import Observation, ProviderError, Reply, Request, ToolCall, Usage, WrappedModel
from whichloop.runs.schedule import Trial
from whichloop.runs.trial_models import TrialModels, user_for_trial


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
