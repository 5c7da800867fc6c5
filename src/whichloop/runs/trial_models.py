"""The models that answer the trials of a run: the scripted model and its price, a real model, or its recording."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichloop._extras import needed_by
from whichloop.datasets.task import Environment, HasUser, Task
from whichloop.models.filling import fits, otherwise
from whichloop.models.limits import WithSampling
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, waits
from whichloop.models.outages import WithOutages
from whichloop.models.prices import FORM, Price, read_prices, read_tag
from whichloop.models.profiles import Profile
from whichloop.models.receipts import Truth
from whichloop.models.recording import RecordedModel, Recordings
from whichloop.models.scripted import Script, Scripted
from whichloop.models.tunnel import InOrder, Tunnel
from whichloop.protocol.chat import Capabilities, Reply, Usage
from whichloop.protocol.json_text import Json
from whichloop.protocol.model import DEFAULT_SAMPLING, Model, ProviderError, Request, Sampling, WrappedModel
from whichloop.protocol.names import is_local_model
from whichloop.protocol.tools import Tool

from .config import CompareConfig, SettingError
from .schedule import Arm, Trial

if TYPE_CHECKING:
    from whichloop.models.real import RealModel

AS_USER = "{} as user"
"""Name under which a recording has a model that plays users, apart from the same model as an agent's."""


def with_scripted_price(config: CompareConfig) -> CompareConfig:
    """Return the configuration with its price as numbers, so that lists and files that change later change nothing.

    Raises SettingError for what is no price, a model that no list has, or a file of prices that nothing is looked up in.
    """
    if config.price is None:
        return config
    file = config.provider.prices
    try:
        tag = read_tag(config.price)
        if tag is not None and file is not None:
            raise ValueError(f"{config.price} needs no file of prices; leave provider.prices out, or name a model of {file}")
        tag = tag or replace(_looked_up(config.price, file), name=config.price)
    except ValueError as error:
        raise SettingError("price", str(error)) from None
    return config.model_copy(update={"price": str(tag), "provider": config.provider.model_copy(update={"prices": None})})


def scripted_price(config: CompareConfig) -> Price | None:
    """Return the price of the scripted model's tokens; None where it has none. Raises SettingError as `with_scripted_price`."""
    price = with_scripted_price(config).price
    return None if price is None else read_tag(price)


def _looked_up(name: str, file: Path | None) -> Price:
    """Return a model's price from the user's file, else from the list that DSPy ships."""
    own = {} if file is None else read_prices(file)
    if name in own:
        return own[name]
    with needed_by(f"the list price of {name}"):
        amounts = import_module("whichloop.dspy_seam").listed_price(name)  # imports DSPy, which takes seconds
    if not amounts:
        where = "the list of prices that DSPy ships" if file is None else f"{file}, nor in the list of prices that DSPy ships"
        raise ValueError(f"{name!r} is not in {where}; write {FORM}")
    return Price(*amounts)


@dataclass(frozen=True, slots=True)
class TrialModels:
    """Makes the models of a run's trials."""

    real: Mapping[str, Model] = field(default_factory=dict)
    """Real models by name, each shared by all trials; empty if a recording answers."""
    recordings: Recordings | None = None
    sampling: Sampling = DEFAULT_SAMPLING
    """Sampling settings that requests to real models leave open; a recording knows them, too."""
    constrain: bool = False
    """Whether real models are held to the formats of codecs; a recording knows that, too."""
    user: str | None = None
    """Name of the model that plays the users of tasks; None: their script does."""
    scripted_price: Price | None = None
    """What the tokens of the scripted model cost; None: no cost is known."""

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[TrialModels]:
        """Be ready to answer within this event loop; afterwards close all connections."""
        async with contextlib.AsyncExitStack() as stack:
            for model in self.real.values():
                if close := getattr(model, "aclose", None):
                    stack.push_async_callback(close)
            yield self

    def close(self, whole: bool) -> None:
        """Bring a recording to the disk. `whole`: the run came to its end. Raises OSError if the disk is full."""
        if self.recordings is not None:
            self.recordings.close(whole)

    def answering(self, name: str, trial: tuple[str, str, int], kept_as: str = "") -> tuple[Model, RecordedModel | None]:
        """Return the real model of a name for one trial, and the recording that answers or listens below it, if there is one.

        `kept_as`: its name in a recording; empty for its own.
        """
        model, recorded = self.real.get(name), None  # a replay asks nobody
        if self.recordings is not None:
            model = recorded = RecordedModel(self.recordings, kept_as or name, trial, model)
        assert model is not None
        return WithSampling(model, self.sampling, constrain=self.constrain), recorded

    def as_manifest(self) -> dict[str, Json]:
        """Return what real models can do, as they declare it or as they showed."""
        return {name: asdict(model.capabilities) for name, model in self.real.items()}


def is_priced(models: TrialModels, arm: Arm) -> bool:
    """Whether it is known what the replies of an arm's model cost."""
    if arm.is_scripted:
        return models.scripted_price is not None
    return bool(getattr(models.real.get(arm.model), "is_priced", False))


def script_of(task: Task, truth: Mapping[str, Truth], profile: Profile, seed: int, repeat: int, tools: Iterable[Tool]) -> Script:
    """Return the script of a task with a plan. `truth`: results of planned calls, may be filled in later. `seed`: the run's."""
    assert task.plan is not None
    schema = task.query.schema
    is_lured = schema is not None and any(kind.startswith("inject.") for kind in profile.kinds)
    return Script(
        plan=task.plan,
        oracle=truth,
        profile=profile,
        seed=seed,
        task=task.id,
        repeat=repeat,
        tools={tool.name: tool.spec for tool in tools},
        question=task.query.text,
        made_up=None if schema is None or not profile.bluff else otherwise(schema, task.expected),
        words=schema is None or not profile.weaknesses or fits(schema, "in words"),
        lure=otherwise(schema, task.expected) if is_lured and schema is not None else None,
    )


def model_for_trial(
    models: TrialModels, trial: Trial, script: Script | None, tunnel: Tunnel | None
) -> tuple[Model, RecordedModel | None]:
    """Return the model of a trial, and the recording that answers or listens below it, if there is one.

    `script`: of a scripted arm; None for a real model, which has a tunnel only where its profile strikes it.
    """
    if script is not None:
        assert tunnel is not None
        scripted = Scripted(script, tunnel)
        return scripted if tunnel.real_time else InOrder(scripted), None
    model, recorded = models.answering(trial.arm.model, trial.key)
    return model if tunnel is None else WithOutages(model, tunnel, trial.draws), recorded


class PlayedUser:
    """Plays the user of one trial, if a model is to do that, and counts what it takes.

    Its calls count towards the budget of the run, not towards that of the trial, which is the agent's.
    """

    def __init__(self, models: TrialModels, trial: Trial, run_meter: Meter) -> None:
        self.calls = 0
        self.usage = Usage()
        self._failure = ""
        self._meter = Meter(parent=run_meter)
        self._recorded: RecordedModel | None = None
        self._model: Model | None = None
        if models.user is not None:
            self._is_priced = bool(getattr(models.real.get(models.user), "is_priced", False))
            model, self._recorded = models.answering(models.user, trial.key, AS_USER.format(models.user))
            self._model = _OffTheClock(MeteredModel(model, self._meter, self.exchange))

    def play(self, environment: Environment) -> Environment:
        """Return the environment with its user played by the model; as it is where the script answers.

        Raises ValueError for an environment without a user.
        """
        if self._model is None:
            return environment
        if not isinstance(environment, HasUser):
            raise ValueError("a model is to play the user, and the task has none")
        return environment.played_by(self._model)

    @property
    def refused(self) -> bool:
        """Whether a call of the user was refused, since the run's budget is used up."""
        return bool(self._meter.refused)

    @property
    def failure(self) -> str:
        """Why the trial says nothing about the agent: the user could not answer. Empty if they could."""
        failure = None if self._recorded is None else self._recorded.failure
        return self._failure if failure is None else f"user: {failure}"

    def counts(self) -> dict[str, int]:
        """Return what the user took, by name: 0 where the agent never asked them; empty if no model plays the user."""
        counts = {"calls": self.calls, "input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        return {} if self._model is None else counts

    @property
    def cost_usd(self) -> float | None:
        """US dollars billed: 0 if the agent never asked a user whose price is known. None: it is not, or no model plays them."""
        return 0.0 if self._model is not None and self._is_priced and not self.calls else self.usage.cost_usd

    def exchange(self, exchange: MeteredExchange) -> None:
        self.calls += 1
        if exchange.reply is not None:
            self.usage += exchange.reply.usage or Usage()
        elif not self._failure:
            what = "provider: " if isinstance(exchange.error, ProviderError) else ""
            self._failure = f"user: {what}{exchange.error}"


class _OffTheClock(WrappedModel):
    """A model whose time is not the agent's."""

    async def complete(self, request: Request) -> Reply:
        with waits().counted():
            return await super().complete(request)


def open_models(config: CompareConfig, arms: Sequence[Arm], begun: Mapping[str, Any] | None = None) -> TrialModels:
    """Look up what the configuration names; a model is asked only if it is to be probed.

    `begun`: what `as_manifest` gave when the run began, of one that goes on. Raises ValueError for a name that leads nowhere, a
    missing key, a model that does not answer the probe, a recording that lacks a model, or one that must not be there.
    """
    real: Mapping[str, Model] = {}
    if config.opened_models and not config.replays:
        real = _open_real_models(config, begun)
    if config.budget.dollars is not None or config.trial_budget.dollars is not None:  # one could never be used up without a price
        check_scripted_price(config)
        for name in [name for name, model in real.items() if not getattr(model, "is_priced", True)]:
            raise ValueError(
                f"a budget in dollars needs the price of {name}, which is in no price list: give it with provider.prices"
            )
    settings = config.provider
    sampling = Sampling(settings.temperature, settings.max_tokens, settings.top_p, settings.seed)
    recordings, goes_on, mode = None, begun is not None, config.cassette_mode or "replay"
    if config.cassette is not None:  # an interrupted recording adds to what it has
        recordings = Recordings(config.cassette, "replay-or-record" if goes_on and mode == "record" else mode, goes_on=goes_on)
        for name in [*(arm.model for arm in arms if not arm.is_scripted), *([AS_USER.format(config.user)] if config.user else [])]:
            recordings.of(name)
    return TrialModels(real, recordings, sampling, settings.constrain, config.user, scripted_price(config))


def _open_real_models(config: CompareConfig, begun: Mapping[str, Any] | None) -> dict[str, Model]:
    """Return the real models by name. No connection is opened, except to probe them; the weights of local ones are loaded.

    `begun`: what the models could do when the run began, of one that goes on. Raises ValueError.
    """
    with needed_by(f"model {config.opened_models[0]}"):
        from whichloop.models.local.model import open_model  # noqa: PLC0415  # imports DSPy, which takes seconds
        from whichloop.models.real import DEFAULTS, RealOptions  # noqa: PLC0415  # imports DSPy

    settings = config.provider
    # Half of a trial's time for one attempt: so a provider that hangs is told from a loop that takes too long. Failed attempts
    # and pauses do not count as time of the trial, so all together may take longer.
    call_timeout_s = min(settings.call_timeout_s, config.trial_timeout_s / 2)
    options = RealOptions(
        call_timeout_s=call_timeout_s,
        attempts=settings.attempts,
        patience_s=max(DEFAULTS.patience_s, settings.attempts * call_timeout_s),
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        most_in_flight=config.in_flight,
        prices={} if settings.prices is None else read_prices(settings.prices),
        without=frozenset(settings.without),
        context_tokens=settings.context_tokens,
    )
    models = {name: open_model(name, None if is_local_model(name) else config.base_url, options) for name in config.opened_models}
    if not config.provider.probe:
        return dict(models)
    if begun is None:
        return asyncio.run(_probed(models))
    try:  # they can do what they showed when the run began
        return {name: model.with_capabilities(Capabilities(**begun[name])) for name, model in models.items()}
    except (KeyError, TypeError):
        raise ValueError("the run's manifest does not say what its models can do") from None


async def _probed(models: Mapping[str, RealModel]) -> dict[str, Model]:
    """Return the models, known to be able to do what they show. Raises ValueError for one that does not answer."""
    from whichloop.models.probe import probe  # noqa: PLC0415  # imports DSPy

    probed: dict[str, Model] = {}
    for name, model in models.items():
        try:
            report = await probe(model)
        finally:
            await model.aclose()
        if report.capabilities is None:
            raise ValueError(f"model {name!r} does not answer: {report.trouble}")
        probed[name] = model.with_capabilities(report.capabilities)
    return probed


def check_scripted_price(config: CompareConfig) -> None:
    """Raise SettingError if a budget in dollars limits a scripted model whose tokens have no price."""
    if not config.real_models and config.price is None:
        raise SettingError("price", "a budget in dollars needs one for the scripted model, such as -s price=0.15/0.60")
