"""What a user gives: hooks, called in place or off the event loop, and a model, by name or as a dict.

Rows such as S3-17 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whichloop.loops.provider_retry import RetryingModel
from whichloop.protocol import SILENT, Model, ModelError, StopRun
from whichloop.protocol.threads import in_thread, is_async_function
from whichloop.protocol.values import error_text


class ParseError(Exception):
    """No valid `__finish__` within the retries."""


class HookFailed(Exception):
    """`on_step` or `on_stream` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error_text(error)}")
        self.error = error


async def call_hook(hook: Callable[[Any], Any], argument: Any) -> Any:
    """Return what the hook returns. Raises HookFailed, except for the errors that may end a branch inside it (row S3-17)."""
    try:
        if is_async_function(hook):
            return await hook(argument)
        return await in_thread(hook, argument)
    except (StopRun, ParseError, ModelError):
        raise
    except Exception as error:
        raise HookFailed(error) from error


def resolve_model(given: Any) -> Model:
    """Return a Model: one that is given, a name (`provider/model`) through DSPy, or a dict.

    The dict holds `model`, `num_retries`, `retry_delay` and settings. Raises ValueError for anything else.
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, str):
        return _named(given, {})
    if not isinstance(given, Mapping) or "model" not in given:
        raise ValueError(f"model: a name such as 'openai/gpt-4o-mini', a dict with 'model', or a Model; got {given!r}")
    settings = dict(given)
    model, retries, delay = settings.pop("model"), settings.pop("num_retries", 0), settings.pop("retry_delay", 0.0)
    if not isinstance(retries, int) or retries < 0 or not isinstance(delay, int | float) or delay < 0:
        raise ValueError(f"model: num_retries and retry_delay must not be negative, got {retries!r} and {delay!r}")
    asked = _named(model, settings) if isinstance(model, str) else resolve_model(model)
    return RetryingModel(asked, retries + 1, delay, SILENT)


def _named(name: str, settings: dict[str, Any]) -> Model:
    from whichloop.dspy_seam import model_named  # imports DSPy, which takes a second: only a model by name needs it

    return model_named(name, settings)
