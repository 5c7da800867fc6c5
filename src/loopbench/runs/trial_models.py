"""What answers the trials of a run: the scripted model, a real model, or a recording of either."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from loopbench.models.cassette import Cassette, CassetteMode, Lane
from loopbench.models.ordering import InOrder
from loopbench.models.sampling import WithSampling
from loopbench.models.scripted import Script, Scripted
from loopbench.models.tunnel import Tunnel
from loopbench.protocol import DEFAULT_SAMPLING, Capabilities, Model, Sampling

from .config import CompareConfig
from .schedule import Arm, Trial

if TYPE_CHECKING:  # DSPy and aiohttp take a second to import: only where a model is asked over a network
    from loopbench.models.limits import Pressure
    from loopbench.models.real import RealModel, RealOptions


@dataclass(frozen=True, slots=True)
class TrialModels:
    """Gives each trial the model that its loop is to ask."""

    real: Mapping[str, Model] = field(default_factory=dict)
    """Real models by name, each shared by all trials; none where a recording answers."""
    cassette: Cassette | None = None
    sampling: Sampling = DEFAULT_SAMPLING
    """What requests to real models leave open; known to a recording, too."""

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[TrialModels]:
        """Ready to answer within this event loop; afterwards all connections are closed."""
        async with contextlib.AsyncExitStack() as stack:
            for model in self.real.values():
                stack.push_async_callback(getattr(model, "aclose", _nothing))
            yield self

    @contextlib.contextmanager
    def model(self, trial: Trial, script: Script | None, tunnel: Tunnel | None) -> Iterator[Model]:
        """The trial's model, for as long as the trial lasts. `script` and `tunnel` belong to a scripted arm."""
        inner: Model | None = None
        if self.cassette is None or self.cassette.mode is not CassetteMode.REPLAY:
            inner = self.real[trial.arm.model] if script is None else Scripted(script, tunnel)
        if self.cassette is not None:
            inner = self.cassette.model(recorded_name(trial.arm, trial.run_seed), Lane(*trial.key), inner, tunnel)
        assert inner is not None
        if tunnel is None:
            yield WithSampling(inner, self.sampling)
        else:
            yield inner if tunnel.real_time else InOrder(inner)

    def close(self, whole: bool) -> None:
        """Bring a recording to the disk. `whole`: the run came to its end. Raises ValueError where the disk is full."""
        if self.cassette is not None:
            self.cassette.close(whole)

    def pressure(self) -> list[str]:
        """A line for each real model that refusals or limits held up."""
        said = []
        for name, model in self.real.items():
            seen: Pressure | None = getattr(model, "pressure", None)
            if seen is not None and seen.smallest_in_flight < seen.most_in_flight:
                said.append(
                    f"{name}: refusals brought requests under way down from {seen.most_in_flight} to {seen.smallest_in_flight}"
                )
            if seen is not None and seen.waited_s >= 1:
                said.append(f"{name}: requests waited for their turn, {seen.waited_s:.0f} s added up over all trials")
        return said

    def as_manifest(self) -> dict[str, Any]:
        """What real models can do, as they declare it or as they showed."""
        return {name: asdict(model.capabilities) for name, model in self.real.items()}


async def _nothing() -> None:
    """For a model that has nothing to close."""


def recorded_name(arm: Arm, seed: int) -> str:
    """Under which a recording keeps an arm's model: under two fault profiles or seeds the scripted model is two models."""
    return f"{arm.model}/{arm.profile.name}/{seed}" if arm.is_scripted else arm.model


def open_models(config: CompareConfig, arms: Sequence[Arm], begun: Mapping[str, Any] | None = None) -> TrialModels:
    """What the configuration names, looked up; a model is asked only where it is to be probed.

    `begun`: what `as_manifest` gave when the run began, of one that goes on. Raises ValueError for a name that leads nowhere, a
    missing key, a model that does not answer the probe, a recording that lacks a model, or one that must not be there.
    """
    opened = _real_models(config)
    real: Mapping[str, Model] = opened
    if config.provider.probe:
        real = asyncio.run(_probed(opened)) if begun is None else _as_begun(opened, begun)
    _check_dollars(config, real)
    given = config.provider
    sampling = Sampling(given.temperature, given.max_tokens, given.top_p, given.seed)
    return TrialModels(real, _cassette(config, arms, goes_on=begun is not None), sampling)


def _check_dollars(config: CompareConfig, models: Mapping[str, Model]) -> None:
    """A budget in dollars that could never be used up is none. Raises ValueError."""
    if config.budget.dollars is None and config.trial_budget.dollars is None:
        return
    if not config.real_models:
        raise ValueError("a budget in dollars is for real models: the scripted one costs nothing")
    for name, model in models.items():
        if not getattr(model, "is_priced", True):
            raise ValueError(f"a budget in dollars needs the price of {name}, which no list has: give it with --prices FILE")


def _as_begun(models: Mapping[str, RealModel], begun: Mapping[str, Any]) -> dict[str, Model]:
    """The models, known to be able to do what they showed when the run began. Raises ValueError."""
    try:
        return {name: model.with_capabilities(Capabilities(**begun[name])) for name, model in models.items()}
    except (KeyError, TypeError):
        raise ValueError("the run's manifest does not say what its models can do") from None


def _real_models(config: CompareConfig) -> dict[str, RealModel]:
    """Opens no connection."""
    if not config.real_models or config.replays:
        return {}
    from loopbench.models.real import open_model

    options = _options(config)
    return {name: open_model(name, config.base_url, options) for name in config.real_models}


def _options(config: CompareConfig) -> RealOptions:
    from loopbench.models.prices import read_prices
    from loopbench.models.real import DEFAULTS, RealOptions

    given = config.provider
    # Half of a trial's time for one attempt: so a provider that hangs is told from a loop that takes too long. Failed attempts
    # and pauses are no time of the trial's, so all together may take longer than it.
    call_timeout_s = min(given.call_timeout_s, config.trial_timeout_s / 2)
    return RealOptions(
        call_timeout_s=call_timeout_s,
        attempts=given.attempts,
        patience_s=max(DEFAULTS.patience_s, given.attempts * call_timeout_s),
        requests_per_minute=given.requests_per_minute,
        tokens_per_minute=given.tokens_per_minute,
        most_in_flight=config.in_flight,
        prices={} if given.prices is None else read_prices(given.prices),
        without=frozenset(given.without),
        context_tokens=given.context_tokens,
    )


async def _probed(models: Mapping[str, RealModel]) -> dict[str, Model]:
    """The models, known to be able to do what they show. Raises ValueError for one that does not answer."""
    from loopbench.models.probe import probe

    made: dict[str, Model] = {}
    for name, model in models.items():
        try:
            found = await probe(model)
        finally:
            await model.aclose()
        if found.capabilities is None:
            raise ValueError(f"model {name!r} does not answer: {found.trouble}")
        made[name] = model.with_capabilities(found.capabilities)
    return made


def _cassette(config: CompareConfig, arms: Sequence[Arm], *, goes_on: bool) -> Cassette | None:
    """`goes_on`: an interrupted recording adds to what it has."""
    if config.cassette is None:
        return None
    mode = CassetteMode(config.cassette_mode or "replay")
    if goes_on and mode is CassetteMode.RECORD:
        mode = CassetteMode.REPLAY_OR_RECORD
    cassette = Cassette.open(config.cassette, mode, goes_on=goes_on)
    try:
        for arm in arms:
            cassette.check(recorded_name(arm, config.seed))
    except ValueError:
        cassette.close(whole=False)
        raise
    return cassette
