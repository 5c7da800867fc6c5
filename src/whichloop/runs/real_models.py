"""The real models of a run, opened and, if asked for, probed. Imports DSPy, which takes seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from whichloop.models.local.model import open_model
from whichloop.models.prices import read_prices
from whichloop.models.probe import probe
from whichloop.models.real import DEFAULTS, RealModel, RealOptions
from whichloop.protocol import Capabilities, Model
from whichloop.protocol.names import is_local_model
from whichloop.runs.config import CompareConfig


def open_real_models(config: CompareConfig, begun: Mapping[str, object] | None) -> dict[str, Model]:
    """Return the real models by name. No connection is opened, except to probe them; the weights of local ones are loaded.

    `begun`: what the models could do when the run began, of one that goes on. Raises ValueError.
    """
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
    return asyncio.run(_probed(models)) if begun is None else _as_able_as_before(models, begun)


def _as_able_as_before(models: Mapping[str, RealModel], begun: Mapping[str, Any]) -> dict[str, Model]:
    """Return the models, known to be able to do what they showed when the run began."""
    try:
        return {name: model.with_capabilities(Capabilities(**begun[name])) for name, model in models.items()}
    except (KeyError, TypeError):
        raise ValueError("the run's manifest does not say what its models can do") from None


async def _probed(models: Mapping[str, RealModel]) -> dict[str, Model]:
    """Return the models, known to be able to do what they show. Raises ValueError for one that does not answer."""
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
