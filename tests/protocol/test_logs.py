"""What the package's loggers write is without secrets, and otherwise what it was."""

from __future__ import annotations

import ast
import io
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whichloop
from tests.syntax import nodes_of, parsed
from tests.test_layout import MODULES, below
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.phased import Phased
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.stateless import Stateless
from whichloop.protocol import (
    Act,
    FunctionModel,
    Loop,
    ProviderError,
    Query,
    Reply,
    Request,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.redact import MARK, logger_of

KEY = "sk-" + "proj-" + "aB3x" * 9
WORDS = st.text("abc %{}:\n", max_size=20)


def written(log: logging.Logger, *told: Any, **more: Any) -> str:
    """Return what a handler with Python's own format writes of one record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)
    try:
        log.warning(*told, **more)
    finally:
        log.removeHandler(handler)
    return stream.getvalue()


@given(before=WORDS, after=WORDS)
def test_a_secret_is_taken_out_of_message_arguments_and_traceback(before: str, after: str) -> None:
    log, plain = logger_of("whichloop.tests.logs"), logging.getLogger("tests.logs")
    said = f"{before} {KEY} {after}"

    def raised(text: str) -> ValueError:
        try:
            try:
                raise KeyError(text)
            except KeyError as cause:
                raise ValueError("no") from cause
        except ValueError as error:
            return error

    for told in (["%s", said], [said], ["no"]):
        for error in (None, raised(said)):
            shown = written(log, *told, exc_info=error)
            assert KEY not in shown
            assert (MARK in shown) is (told[0] != "no" or error is not None)
    assert written(log, "%s", before, exc_info=raised(after)) == written(plain, "%s", before, exc_info=raised(after))


def test_a_traceback_without_a_secret_keeps_its_exception() -> None:
    log, kept = logger_of("whichloop.tests.logs"), list[logging.LogRecord]()
    handler = logging.Handler()
    handler.emit = kept.append  # type: ignore[method-assign, assignment]
    log.addHandler(handler)
    error = ValueError("no")
    log.warning("it failed", exc_info=error)
    log.removeHandler(handler)
    (record,) = kept
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_every_logger_of_ours_is_made_so() -> None:
    """Others only set levels and handlers."""
    makers = {
        below(path)
        for path in MODULES
        if "getLogger" in path.read_text(encoding="utf-8")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.Assign) and "getLogger" in ast.unparse(node.value) and "level" not in ast.unparse(node.value)
    }
    assert makers == {"protocol/redact.py", "cli/process.py", "cli/serve.py"}


@pytest.mark.parametrize(
    "loop",
    [Bare(), Finish(max_steps=3), Phased(), ReactExtract(), Stateless(), ProviderRetry(Bare(), attempts=2)],
    ids=lambda loop: loop.name,
)
def test_a_loop_logs_no_key_of_a_models_or_a_tools_error(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    error = ProviderError(f"refused: {KEY}")

    def ask() -> str:
        """Ask a service."""
        raise RuntimeError(f"refused: {KEY}")

    asked = 0

    def model(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        if asked == 1 and request.codec is not None and request.codec.role.value == "decide":
            return request.codec.render(Act("", (ToolCall("ask", {}),)))
        raise error

    caplog.set_level(logging.INFO, "whichloop")
    outcome = run_sync(loop.run(Query("Ask it."), Toolbox([ask]), FunctionModel(model)))
    assert {record.levelno for record in caplog.records} == {logging.INFO}  # so that none shows until a service asks
    assert f"refused: {MARK}" in caplog.text
    assert KEY not in caplog.text
    assert outcome.details["exception"] is error
    assert KEY in str(outcome.error)  # a product's own: it redacts what it writes itself
    assert KEY not in whichloop.redact(str(outcome.error))
