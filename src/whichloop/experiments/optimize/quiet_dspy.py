"""Silencing DSPy's optimizers: their bars, prints and logs stay off the screen, and the problems that they log are reported.

They print, draw progress bars and log in their own modules, and swallow exceptions that they only log. Streams are not touched,
because the whole process shares them and shows its own progress: `print`, the bars and the log handlers are replaced in the
modules themselves, and restored.
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

from whichloop.protocol.own_code import raised_at
from whichloop.protocol.redact import redact
from whichloop.protocol.values import cap, error_text

Warn = Callable[[str], None]

LOGGERS = ("dspy", "gepa", "optuna")
PACKAGES = ("dspy.teleprompt", "dspy.propose", "dspy.evaluate", "dspy.utils.parallelizer", "gepa")
"""The packages in which optimizers print, draw bars and start threads. Elsewhere DSPy only warns about the form of requests."""
PREFIXES = tuple(f"{name}." for name in PACKAGES)
MAX_WARNINGS = 20
"""Maximum number of distinct messages of one compile, because problems tend to repeat."""
MAX_CHARS = 400

_SWALLOWED = re.compile(r"Batched reflection failed|Per-task reflection failed|Iteration \d+: Exception|Error ")
"""The beginnings of messages about exceptions below the level of a warning: GEPA's at INFO, MIPROv2's printed."""
_OF_AN_EXAMPLE = re.compile(r"Failed to run or to evaluate example |Error for ")
"""The beginnings of messages that show a whole example before the exception, of BootstrapFewShot and of evaluations."""


@contextmanager
def quiet(warn: Warn) -> Iterator[None]:
    """Silence DSPy, GEPA and optuna; `warn` gets the optimizers' warnings and errors, each once, in one line."""
    warn_once = _Once(warn)
    with ExitStack() as stack:
        for name in LOGGERS:
            stack.enter_context(_captured(logging.getLogger(name), warn_once))
        for module in _modules():
            stack.enter_context(_replaced(module, _stand_ins(module, warn_once)))
        yield


def error_line(error: BaseException) -> str:
    """Return type and message of an exception, or of its cause if it has no message, as one short line without secrets."""
    while not error_text(error) and error.__context__ is not None:
        error = error.__context__
    return cap(redact(" ".join(f"{type(error).__name__}: {error_text(error)}".split())), MAX_CHARS)


def with_place(error: BaseException) -> str:
    """Return an exception in one line, with the place in the user's code where it came up."""
    at = raised_at(error)
    return f"{error_line(error)}{f' at {at}' if at else ''}"


class _Once:
    """A filter that passes on each message once, up to a maximum number."""

    def __init__(self, warn: Warn) -> None:
        self.warn = warn
        self.seen: set[str] = set()

    def __call__(self, text: str, kind: str = "") -> None:
        """Pass a message on, if none of its kind was before; `kind`: empty for the message itself."""
        line = cap(redact(" ".join(text.split())), MAX_CHARS)
        kind = re.sub(r"\d+", "0", kind or line)  # numbers of iterations and batches
        if line and kind not in self.seen and len(self.seen) < MAX_WARNINGS:
            self.seen.add(kind)
            self.warn(line)


class _Handler(logging.Handler):
    def __init__(self, warn: _Once) -> None:
        super().__init__()
        self.warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a message on; of one about an example, the exception first, since examples are longer than what is shown."""
        text, error = record.getMessage(), sys.exc_info()[1]
        if not f"{record.name}.".startswith(PREFIXES) or not (record.levelno >= logging.WARNING or _SWALLOWED.match(text)):
            return
        if error is not None and _OF_AN_EXAMPLE.match(text):
            cause = error_line(error)
            self.warn(f"{cause} ({text})", kind=cause)
        else:
            self.warn(text)


@contextmanager
def _captured(logger: logging.Logger, warn: _Once) -> Iterator[None]:
    """Replace a logger's handlers by one; restore its level too, because MIPROv2 sets optuna's."""
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [_Handler(warn)], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def _modules() -> list[ModuleType]:
    for name in ("dspy.teleprompt", "dspy.teleprompt.gepa", "dspy.propose", "gepa"):
        importlib.import_module(name)
    imported = sys.modules.copy()  # in one go: another thread may be importing
    return [module for name, module in imported.items() if module is not None and f"{name}.".startswith(PREFIXES)]


def _stand_ins(module: ModuleType, warn: Warn) -> dict[str, Any]:
    def print_(*values: object, **_: object) -> None:
        text = " ".join(map(str, values))
        if _SWALLOWED.match(text):
            warn(text)

    replacements: dict[str, Any] = {"print": print_}
    if "tqdm" in vars(module):
        replacements["tqdm"] = SimpleNamespace(tqdm=_NoBar) if isinstance(module.tqdm, ModuleType) else _NoBar
    if vars(module).get("ThreadPoolExecutor") is ThreadPoolExecutor:
        replacements["ThreadPoolExecutor"] = _Pool
    return replacements


_ABSENT = object()


@contextmanager
def _replaced(module: ModuleType, stand_ins: dict[str, Any]) -> Iterator[None]:
    originals = {name: vars(module).get(name, _ABSENT) for name in stand_ins}
    vars(module).update(stand_ins)
    try:
        yield
    finally:
        for name, value in originals.items():
            if value is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, value)


class _NoBar:
    """A substitute for tqdm's bars that shows nothing."""

    _instances: ClassVar[set[Any]] = set()

    def __init__(self, items: Any = (), **_: object) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def set_description(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Pool(ThreadPoolExecutor):
    """A pool that drops waiting calls on an exception: DSPy's own pool would run them, which would cost rollouts after the end."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for running calls, so that all are counted when a compile ends; not after Ctrl-C."""
        super().shutdown(not isinstance(sys.exc_info()[1], KeyboardInterrupt), cancel_futures=True)
