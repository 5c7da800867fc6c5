"""One compile of a teleprompter: its inputs, its metrics and its program.

It leaves DSPy's settings, streams and loggers as they were, and is repeatable: equal seeds and equal answers give equal programs.
An exception in a rollout or a metric, which DSPy would log and score 0, ends the compile as OptimizerFailed. What DSPy prints and
logs goes to a file.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import dspy

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol import Program
from whichloop.protocol.own_code import raised_at
from whichloop.protocol.redact import redact
from whichloop.protocol.values import cap, error_text
from whichloop.runs.store.files import write_whole

from .candidates import Status


@dataclass(frozen=True, slots=True)
class Workshop:
    """The inputs of a compile."""

    student: LoopProgram
    train: Sequence[dspy.Example]
    """The examples to learn from: `query`, `task` and `answer`, of which the first two are inputs."""
    dev: Sequence[dspy.Example]
    lm: Any
    threads: int = 1
    seed: int = 0
    log: Path = Path(os.devnull)
    """The file that gets what DSPy prints and logs."""


class OptimizerFailed(Exception):
    """A compile without a result because of a bug in the optimizer, a metric or a rollout; the message names the cause."""


class SearchOver(BaseException):
    """The search ends with its best program so far. No Exception: optimizers swallow those, and would go on."""

    def __init__(self, reason: str, status: Status = "budget") -> None:
        """`budget`: it is used up; `failed`: the scorer is broken."""
        super().__init__(reason)
        self.status = status


class Uncaught(BaseException):
    """A carrier of an exception (its cause) past optimizers, which would log it and score 0; its text says where it was raised."""


MAX_CHARS = 400


def error_line(error: BaseException) -> str:
    """Return type and message of an exception, or of its cause if it has no message, as one short line without secrets."""
    while not error_text(error) and error.__context__ is not None:
        error = error.__context__
    return cap(redact(" ".join(f"{type(error).__name__}: {error_text(error)}".split())), MAX_CHARS)


# --- metrics ---


def score(example: Any, prediction: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    """Return the rollout's score in [0, 1]; with a trace, in bootstrapping, whether it is a full success.

    An optimizer that names a predictor, as GEPA does, gets what `judge` gives.
    """
    if pred_name is not None:
        return judge(example, prediction)
    value = float(prediction.score)
    return value if trace is None else value >= 1.0


def judge(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    """Return a dspy.Prediction of score and feedback, which GEPA reflects on and SIMBA derives advice from."""
    return dspy.Prediction(score=float(pred.score), feedback=str(pred.feedback))


def loud(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metric whose exceptions end the compile."""

    @functools.wraps(metric)  # GEPA looks at the signature
    def measured(*args: Any, **kwargs: Any) -> Any:
        try:
            return metric(*args, **kwargs)
        except Exception as error:
            raise Uncaught("in the metric") from error

    return measured


@contextmanager
def loud_metric_of(teleprompter: object) -> Iterator[None]:
    """Let exceptions in the metric that a teleprompter brings along end the compile, within the block."""
    attributes = getattr(teleprompter, "__dict__", {})
    own = {name: attributes[name] for name in ("metric", "metric_fn") if callable(attributes.get(name))}
    attributes.update({name: loud(metric) for name, metric in own.items()})
    try:
        yield
    finally:
        attributes.update(own)


# --- a compile ---


class LoopUnderTest(LoopProgram):
    """An agent: a loop asks a model, calls tools and reads their results until it has an answer.

    Each predictor is one kind of request that the loop makes. Its instructions and demonstrations are all that can be changed.
    """

    # MIPROv2 and SIMBA show the source of this class to the model that proposes.

    fuse: _Fuse

    @classmethod
    def of(cls, student: LoopProgram) -> Self:
        student_copy: Self = student.deepcopy()
        student_copy.__class__ = cls
        student_copy._compiled = False  # DSPy takes a compiled program for frozen
        student_copy.fuse = _Fuse()
        student_copy.set_lm(None)
        return student_copy

    def forward(self, **inputs: Any) -> Any:
        trace = dspy.settings.trace
        before = 0 if trace is None else len(trace)
        with self.fuse:
            prediction = super().forward(**inputs)
        if trace is not None:
            trace[before:] = [(who, _fresh(given), dspy.Prediction(**_fresh(dict(said)))) for who, given, said in trace[before:]]
        return prediction


class _Fuse:
    """A fuse shared by a program and its copies: a rollout that raises blows it, and then no further one begins."""

    def __init__(self) -> None:
        self.blown: BaseException | None = None
        self._running = 0
        self._changed = threading.Condition()

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __enter__(self) -> None:
        with self._changed:
            if self.blown is not None:
                raise self.blown
            self._running += 1

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
            if isinstance(error, Exception):
                self.blown = Uncaught("in a rollout")
                raise self.blown from error
            self.blown = error or self.blown

    def end(self) -> None:
        """Let no rollout begin any more, and wait for those under way, so that all are counted; not after Ctrl-C."""
        with self._changed:
            self.blown = self.blown or Uncaught("after the end")
            while self._running and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                self._changed.wait()


def _fresh(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in which each text is an object of its own.

    BootstrapFewShot draws by a hash of pickles, which distinguish one text used twice from two equal texts: a rollout that is
    read from a log would lead to other demonstrations than the same one did when it was run.
    """
    copy: dict[str, Any] = json.loads(json.dumps(values))
    return copy


_ONE_AT_A_TIME = threading.RLock()
"""A lock, because what DSPy prints and logs is the whole process's."""


def compiled(name: str, search: Callable[[Workshop, LoopProgram], Any], workshop: Workshop) -> Program:
    """Run `search` on a copy of the student, and return the prompts of the program that it gives.

    A process runs one compile at a time; others wait. Raises OptimizerFailed. Only BaseExceptions pass through every optimizer:
    KeyboardInterrupt, or one that a rollout raises to end the compile.
    """
    student = LoopUnderTest.of(workshop.student)
    settings = {
        "lm": workshop.lm,
        "adapter": dspy.ChatAdapter(),
        "trace": None,  # else every rollout is kept; code that needs a trace starts its own
        "callbacks": [],
        "disable_history": True,
        "track_usage": False,
        "num_threads": workshop.threads,
        "max_errors": sys.maxsize,  # DSPy would discard all scores at the tenth
    }
    with _ONE_AT_A_TIME, _logged(workshop), dspy.context(**settings):
        try:
            return _program(search(workshop, student), workshop.student)
        except Uncaught as uncaught:
            cause = uncaught.__cause__
            place = f" at {at}" if cause is not None and (at := raised_at(cause)) else ""
            raise OptimizerFailed(f"{name}: {uncaught}: {error_line(cause or uncaught)}{place}") from cause
        except Exception as error:  # the boundary to DSPy's and the user's own optimizers
            raise OptimizerFailed(f"{name}: {error_line(error)}") from error
        finally:
            student.fuse.end()


def _program(result: Any, student: LoopProgram) -> Program:
    """Return an optimizer's result. Raises TypeError for anything but a program of the student's predictors."""
    if not isinstance(result, LoopProgram):
        raise TypeError(f"it gave a {type(result).__name__}, not the program that it was handed, or a copy of it")
    names = [sorted(name for name, part in vars(each).items() if isinstance(part, dspy.Predict)) for each in (result, student)]
    if names[0] != names[1]:
        raise TypeError(f"it gave a program of the predictors {', '.join(names[0]) or 'none'}, not {', '.join(names[1])}")
    return {name: replace(prompt, demos=tuple(map(_fresh, prompt.demos))) for name, prompt in result.program.items()}


# --- what DSPy prints, draws and logs ---

LOGGERS = ("dspy", "gepa", "optuna")


@contextmanager
def _logged(workshop: Workshop) -> Iterator[None]:
    """Write what DSPy prints and logs within the block into the workshop's file, without secrets, and draw no bars."""
    bar, log = importlib.import_module("tqdm").tqdm, io.StringIO()
    with ExitStack() as stack:
        stack.callback(lambda: write_whole(workshop.log, redact(log.getvalue()).encode("utf-8", "replace")))
        for logger in map(logging.getLogger, LOGGERS):
            stack.callback(vars(logger).update, handlers=logger.handlers, propagate=logger.propagate)
            stack.callback(logger.setLevel, logger.level)  # MIPROv2 sets optuna's
            logger.handlers, logger.propagate = [logging.StreamHandler(log)], False
        stack.enter_context(redirect_stdout(log))
        for owner, name, stand_in in (
            (bar, "__init__", functools.partialmethod(bar.__init__, disable=True)),
            (bar, "monitor_interval", 0),  # no thread that watches bars
            (importlib.import_module("dspy.teleprompt.gepa.gepa_utils"), "ThreadPoolExecutor", _Pool),
        ):
            stack.callback(setattr, owner, name, vars(owner)[name])
            setattr(owner, name, stand_in)
        yield


class _Pool(ThreadPoolExecutor):
    """A pool that waits for no call after Ctrl-C: GEPA's would wait for the rollout that a thread of it waits for."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait and not isinstance(sys.exc_info()[1], KeyboardInterrupt), cancel_futures=True)
