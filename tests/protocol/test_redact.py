"""No secret outlives `redact`, and text without one is left alone."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.protocol.redact import MARK, redact

SECRET = st.text(alphabet='ABCDEFGHIJKLM0123456789/+"=-_.\\', min_size=8, max_size=40)
"""Without white space, and of no letter that the mark has: a secret `redacted` could not be taken out."""
VARIABLE = st.sampled_from(["OPENAI_API_KEY", "MY_GATEWAY_TOKEN", "X_SECRET", "AWS_SECRET_ACCESS_KEY", "db_password", "A_API_KEY"])
FORM = st.sampled_from([str, lambda value: json.dumps({"key": value}), lambda value: quote(value, safe="")])


@given(st.dictionaries(VARIABLE, SECRET, min_size=1), st.lists(st.text(max_size=20), min_size=1), st.data())
def test_no_value_of_a_key_variable_outlives_redact(environ, pieces, data):
    text = ""
    for piece in pieces:
        text += piece + data.draw(FORM)(data.draw(st.sampled_from([*environ.values()])))
    kept = redact(text, environ)
    assert not any(secret in kept for secret in environ.values())
    assert MARK in kept


@given(st.text(alphabet="abcdeghjkp-ABC019 .:,;@/?=&[]\n\"'", max_size=200), st.dictionaries(VARIABLE, SECRET))
def test_redacting_twice_is_redacting_once(text, environ):
    once = redact(text, environ)
    assert redact(once, environ) == once


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz ,.()'\n", max_size=200))
def test_prose_is_left_alone(text):
    assert redact(text, {"OPENAI_API_KEY": "sk-live-0123456789", "PATH": text, "SHORT_TOKEN": text[:7]}) == text


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-****************abcd. You can find your key at https://x.test/keys",
        "header Authorization: Bearer ey0.abc-DEF_123",
        '{"authorization": "Bearer ey0.abc-DEF_123"}',
        "Proxy-Authorization: Basic dXNlcjpzM2NyZXQ=",
        "http://user:p@ss0@host:80/v1 refused",
        "https://gateway.test/v1?api_key=0123456789abcdef0&x=1",
        'x-api-key: "0123456789abcdef0"',
        "key AIzaSyA0123456789012345678901234567890",
    ],
)
def test_what_looks_like_a_key_goes_whatever_the_environment_holds(text):
    kept = redact(text, {})
    assert MARK in kept
    for secret in ("sk-proj", "abcd.", "ey0", "DEF_123", "dXNl", "p@ss0", "ss0", "user:", "0123456789abcdef0", "SyA0"):
        assert secret not in kept


@pytest.mark.parametrize(
    "text",
    [
        "The server had an error while processing your request (HTTP 500)",
        "basic authentication failed; bearer credentials are missing",
        "API key: missing or malformed credentials",
        "task-management-system, risk-0123456789-free",
        "mail someone@host.test about http://host.test/a@b",
        "http://127.0.0.1:8000/v1 refused the connection",
    ],
)
def test_an_ordinary_message_stays_as_it_is(text):
    assert redact(text, {}) == text


def test_an_empty_or_short_value_takes_nothing_out():
    assert redact("a b c", {"A_TOKEN": "", "B_TOKEN": "a", "C_SECRET": "   "}) == "a b c"


def test_the_longer_of_two_nested_values_goes_whole():
    assert redact("<ABCDEFGH12>", {"A_TOKEN": "ABCDEFGH", "B_TOKEN": "ABCDEFGH12"}) == f"<{MARK}>"


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "plain words as a key")
    assert redact("got: plain words as a key!") == f"got: {MARK}!"
