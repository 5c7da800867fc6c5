"""DSPy's optimizers kept quiet: their bars, prints and logs reach nobody's screen, and what they log as trouble is told.

They print, draw progress bars and log in their own modules, and swallow exceptions that are then only logged. Streams are left
alone, since they belong to the whole process, whose own progress goes on meanwhile: it is in the modules themselves that `print`,
the bars and the handlers of the logs are replaced, and put back.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from loopbench.protocol.redact import redact
from loopbench.protocol.values import cap, error_text

Warn = Callable[[str], None]

LOGGERS = ("dspy", "gepa", "optuna")
PACKAGES = ("dspy.teleprompt", "dspy.propose", "dspy.evaluate", "dspy.utils.parallelizer", "gepa")
"""Where optimizers print, draw bars and start threads. Elsewhere DSPy warns of the form of requests, a field's type say."""
PREFIXES = tuple(f"{name}." for name in PACKAGES)
MAX_WARNINGS = 20
"""Distinct messages of one compile; what goes wrong once tends to go wrong again."""
MAX_CHARS = 400

_SWALLOWED = re.compile(r"Batched reflection failed|Per-task reflection failed|Iteration \d+: Exception|Error ")
"""How messages below a warning begin that tell of an exception: GEPA's at INFO, MIPROv2's printed."""


@contextmanager
def quiet(warn: Warn) -> Iterator[None]:
    """Nothing of DSPy's, GEPA's or optuna's is shown; `warn` gets the optimizers' warnings and errors, each once, in one line."""
    tell = _Once(warn)
    with ExitStack() as stack:
        for name in LOGGERS:
            stack.enter_context(_captured(logging.getLogger(name), tell))
        for module in _modules():
            stack.enter_context(_replaced(module, _stand_ins(module, tell)))
        yield


def one_line(error: BaseException) -> str:
    """Type and message of an exception, or of what it came of where it says nothing, without secrets, in one bounded line."""
    while not error_text(error) and error.__context__ is not None:
        error = error.__context__
    return cap(redact(" ".join(f"{type(error).__name__}: {error_text(error)}".split())), MAX_CHARS)


class _Once:
    """Passes each message on once, up to a number of them."""

    def __init__(self, warn: Warn) -> None:
        self.warn = warn
        self.seen: set[str] = set()

    def __call__(self, text: str) -> None:
        line = cap(redact(" ".join(text.split())), MAX_CHARS)
        kind = re.sub(r"\d+", "0", line)  # of iterations and batches
        if line and kind not in self.seen and len(self.seen) < MAX_WARNINGS:
            self.seen.add(kind)
            self.warn(line)


class _Handler(logging.Handler):
    def __init__(self, tell: Warn) -> None:
        super().__init__()
        self.tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if f"{record.name}.".startswith(PREFIXES) and (record.levelno >= logging.WARNING or _SWALLOWED.match(text)):
            self.tell(text)


@contextmanager
def _captured(logger: logging.Logger, tell: Warn) -> Iterator[None]:
    """One handler in the place of a logger's own; its level is put back too, since MIPROv2 sets optuna's."""
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [_Handler(tell)], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def _modules() -> list[ModuleType]:
    for name in ("dspy.teleprompt", "dspy.teleprompt.gepa", "dspy.propose", "gepa"):
        importlib.import_module(name)
    return [module for name, module in [*sys.modules.items()] if module is not None and f"{name}.".startswith(PREFIXES)]


def _stand_ins(module: ModuleType, tell: Warn) -> dict[str, Any]:
    def said(*values: object, **_: object) -> None:
        text = " ".join(map(str, values))
        if _SWALLOWED.match(text):
            tell(text)

    made: dict[str, Any] = {"print": said}
    if "tqdm" in vars(module):
        made["tqdm"] = SimpleNamespace(tqdm=_NoBar) if isinstance(module.tqdm, ModuleType) else _NoBar
    if vars(module).get("ThreadPoolExecutor") is ThreadPoolExecutor:
        made["ThreadPoolExecutor"] = _Pool
    return made


_ABSENT = object()


@contextmanager
def _replaced(module: ModuleType, stand_ins: dict[str, Any]) -> Iterator[None]:
    before = {name: vars(module).get(name, _ABSENT) for name in stand_ins}
    vars(module).update(stand_ins)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, value)


class _NoBar:
    """What DSPy and GEPA use of tqdm's bars, without a bar."""

    _instances: ClassVar[set[Any]] = set()

    def __init__(self, items: Any = (), **_: object) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def update(self, n: int = 1) -> None:
        """Nothing to show."""

    def set_description(self, text: str) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing to close."""


class _Pool(ThreadPoolExecutor):
    """Left by an exception, it begins nothing that it has not begun: DSPy's own goes through all that is still waiting, which would
    roll out and spend on after the end."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What has begun is waited for, so that all is counted when a compile has ended; not after Ctrl-C."""
        super().shutdown(not isinstance(sys.exc_info()[1], KeyboardInterrupt), cancel_futures=True)
