"""Errors of providers: told apart, in our own words, and without keys."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.local.model import open_model
from whichloop.models.real import RealOptions
from whichloop.protocol import ContextOverflow, Message, ModelError, NativeCall, ProviderError, Reply, Request

from .provider import EACH, HANG_UP, HELLO, JSON, NAME, OBJECT, SECRET, CannedAnswer, _ask, ask_once, failure


@EACH
@given(
    status=st.integers(200, 599),
    body=st.text(max_size=50) | JSON | st.fixed_dictionaries({"error": JSON | OBJECT}) | st.fixed_dictionaries({"choices": JSON}),
)
def test_whatever_a_server_answers_is_a_reply_or_a_model_error(shared, status, body):
    shared.rule = lambda heard: CannedAnswer("" if status in (204, 304) else body, status)
    failed = ""
    try:
        reply = ask_once(shared)
    except ModelError as error:
        failed = str(error)
    else:
        assert isinstance(reply, Reply)
    assert "\n" not in failed


def google(status: int, message: str, code: str) -> CannedAnswer:
    return CannedAnswer({"error": {"code": status, "message": message, "status": code}}, status)


def claude(status: int, message: str, code: str) -> CannedAnswer:
    return CannedAnswer({"type": "error", "error": {"type": code, "message": message}}, status)


def vllm(status: int, message: str) -> CannedAnswer:
    return CannedAnswer({"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}, status)


def invalid(*place: str | int) -> str:
    """FastAPI's words for a request that failed validation at a place of its body."""
    items = [
        {"type": "literal_error", "loc": ("body", *place), "msg": "Input should be 'x'", "input": "'loc': ('body', 'tools')"},
        {"type": "missing", "loc": ("body", *place, "tools"), "msg": "Field required", "input": None},
    ]
    return "2 validation errors:\n" + "".join(f"  {item!r}\n" for item in items)


OVERFLOW = "the request exceeds the available context size"
ANSWERS: dict[str, dict[str, CannedAnswer]] = {
    "overflow": {
        "openai": failure(400, "This model's maximum context length is 8 tokens.", "context_length_exceeded"),
        "openai responses": failure(400, "Your input exceeds the context window of this model.", "invalid_value"),
        "anthropic": claude(400, "prompt is too long: 213462 tokens > 200000 maximum", "invalid_request_error"),
        "anthropic output": claude(400, "input length and `max_tokens` exceed context limit: 9 + 2 > 10", "invalid_request_error"),
        "gemini": google(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "INVALID_ARGUMENT"),
        "vllm": vllm(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
        "llama.cpp": CannedAnswer({"error": {"message": OVERFLOW, "type": "exceed_context_size_error", "code": 400}}, 400),
        "llama.cpp bare": CannedAnswer({"error": {"message": f"{OVERFLOW}, try increasing it"}}, 500),
        "ollama": CannedAnswer({"error": {"message": "the input length exceeds the context length", "type": "api_error"}}, 400),
        "mistral": failure(400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
        "bedrock": failure(400, "Input is too long for requested model."),
        "proxy": CannedAnswer("<html>Request Entity Too Large</html>", 413),
    },
    "refused": {
        "openai": failure(400, "Unsupported parameter: 'tool_choice' is not supported with this model.", "unsupported_parameter"),
        "vllm": vllm(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        "ollama": failure(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        "openrouter": failure(404, "No endpoints found that support tool use."),
        "deepseek": failure(400, "This response_format type is unavailable now"),
        "anthropic": claude(400, "Thinking may not be enabled when tool_choice forces tool use.", "invalid_request_error"),
        "gemini": google(400, "Function calling is not enabled for models/gemma-3", "INVALID_ARGUMENT"),
        "llama.cpp": failure(500, "tools param requires --jinja flag"),
        "fastapi": CannedAnswer({"detail": [{"loc": ["body", "tool_choice"], "msg": "Extra inputs are not permitted"}]}, 422),
        "llama-cpp-python": failure(500, invalid("response_format", "type")),
        "plain": CannedAnswer({"error": "this model does not support tools"}, 400),
        "not implemented": failure(501, "tool_choice is not implemented"),
    },
    "bad_request": {
        "tokens": failure(400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"),
        "value": failure(400, "Unsupported value: 'temperature' does not support 0.2 with this model."),
        "schema": failure(400, "Invalid schema for function 'add': 'type' is required"),
        "validation": failure(500, invalid("messages", 1, "tool_calls")),
        "fastapi": CannedAnswer({"detail": [{"loc": ["body", "temperature"], "msg": "Input should be less than 2"}]}, 422),
        "not found": failure(404, "The model does not exist", "model_not_found"),
    },
    "auth": {
        "quota of openai": failure(429, "You exceeded your current quota", "insufficient_quota"),
        "billing": failure(402, "Insufficient Balance"),
        "key": failure(401, "Incorrect API key", "invalid_api_key"),
        "forbidden": failure(403, "not yours"),
    },
    "rate_limit": {
        "header": failure(429, "slow down", "rate_limit_exceeded", **{"Retry-After": "7"}),
        "no header": failure(429, "slow down", "rate_limit_exceeded"),
        "in ms": failure(429, "Please try again in 312ms.", "rate_limit_exceeded"),
        "in hours": failure(429, "Please try again in 1h2m3s. Need more?", "rate_limit_exceeded"),
        "gemini": google(429, "You exceeded your current quota. Please retry in 34.07s.", "RESOURCE_EXHAUSTED"),
    },
    "server": {
        "oops": failure(500, "oops"),
        "gateway": CannedAnswer("<html>bad gateway</html>", 502),
        "a list": CannedAnswer("[1]"),
    },
    "overloaded": {
        "anthropic": claude(529, "Overloaded", "overloaded_error"),
        "busy": failure(503, "overloaded", **{"Retry-After": "2"}),
    },
    "timeout": {"gateway": failure(504, "too long")},
    "connection": {"hang up": HANG_UP},
}
"""Kind of the error → what a provider says."""
WAITS = {"header": 7.0, "in ms": 0.312, "in hours": 3723.0, "gemini": 34.07, "busy": 2.0}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, answers in ANSWERS.items() for name in answers])
def test_what_providers_say_is_told_apart(shared, kind, name):
    said = ANSWERS[kind][name]
    shared.rule = lambda heard: said
    with pytest.raises(ContextOverflow if kind == "overflow" else ProviderError) as caught:
        ask_once(shared)
    if isinstance(error := caught.value, ProviderError):
        assert (error.kind, error.injected) == (kind, False)
        assert error.status == (None if name in ("a list", "hang up") else said.status)
        assert error.retry_after_s == (WAITS.get(name) if kind in ("rate_limit", "overloaded") else None)
    if kind == "refused":
        assert any(word in str(error).lower() for word in ("tool", "response_format", "function calling"))


@pytest.mark.parametrize(
    "request_",
    [
        Request(()),
        Request((Message("tool", "x", call_id=""),)),
        Request(HELLO.messages, tool_choice="no_such_tool"),
        Request((*HELLO.messages, Message("assistant", "", (NativeCall("", "", "{}"),)))),
    ],
    ids=["nothing", "answer to no call", "tool not offered", "nameless call"],
)
def test_what_cannot_be_sent_is_a_bad_request(shared, request_):
    before = len(shared.seen)
    with pytest.raises(ProviderError) as caught:
        ask_once(shared, request_)
    assert caught.value.kind == "bad_request"
    assert len(shared.seen) == before


@EACH
@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_an_error_that_echoes_the_key_does_not_hold_it(shared, before, after):
    os.environ["OPENAI_API_KEY"] = SECRET  # put back by the fixture
    shared.rule = lambda heard: failure(401, f"{before}{heard.headers['Authorization']}{after}")
    try:
        with pytest.raises(ProviderError) as caught:
            ask_once(shared)
    finally:
        del os.environ["OPENAI_API_KEY"]
    assert shared.seen[-1].key == SECRET
    assert SECRET not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)  # what the provider said holds the key


@pytest.mark.parametrize("said", [failure(401, SECRET), CannedAnswer(f"<html>{SECRET}")], ids=["refused", "unreadable"])
@pytest.mark.parametrize("streamed", [False, True])
def test_nothing_that_a_provider_said_is_behind_an_error(shared, said, streamed):
    """Those who report errors look at what came before them, too."""
    shared.rule = lambda heard: said
    model = open_model(NAME, shared.url, RealOptions(attempts=1))

    async def go() -> None:
        try:
            async for _ in model.stream(HELLO):
                break
        finally:
            await model.aclose()

    with pytest.raises(ModelError) as caught:
        asyncio.run(go() if streamed else _ask(model, HELLO))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
