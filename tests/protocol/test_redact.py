"""No secret outlives `redact`, and text without one is left alone."""

from __future__ import annotations

import ast
import io
import json
import logging
import uuid
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.protocol.planted import SHAPES, planted
from tests.syntax import nodes_of, parsed
from tests.test_layout import MODULES, below
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.phased import Phased
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.stateless import Stateless
from whichloop.models.receipts import ReceiptEntry
from whichloop.protocol import Act, FunctionModel, Loop, ProviderError, Query, Reply, Request, Toolbox, ToolCall, run_sync
from whichloop.protocol.json_text import sha256
from whichloop.protocol.redact import MARK, logger_of, redact, redact_json

SECRET = st.text(alphabet='ABCDEFGHIJKLM0123456789/+"=-_.\\', min_size=8, max_size=40)
"""Without white space, and of no letter that the mark has: a secret `redacted` could not be taken out."""
VARIABLE = st.sampled_from(["OPENAI_API_KEY", "MY_GATEWAY_TOKEN", "X_SECRET", "AWS_SECRET_ACCESS_KEY", "db_password", "A_API_KEY"])
FORM = st.sampled_from(
    [
        str,
        repr,
        lambda value: json.dumps({"key": value}),
        lambda value: json.dumps(json.dumps([value])),
        lambda value: json.dumps([json.dumps([json.dumps([json.dumps([value], ensure_ascii=False)])])]),
    ]
)


@given(st.dictionaries(VARIABLE, SECRET, min_size=1), st.lists(st.text(max_size=20), min_size=1), st.data())
def test_no_value_of_a_key_variable_outlives_redact(environ, pieces, data):
    text = ""
    for piece in pieces:
        text += piece + data.draw(FORM)(data.draw(st.sampled_from([*environ.values()])))
    kept = redact(text, environ)
    assert not any(secret in kept for secret in environ.values())
    assert MARK in kept


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_with_quotes_goes_from_json_within_json_five_times(ascii_only):
    text = 'before pass"wörd\\one behind'
    for depth in range(6):
        kept = redact(text, {"MY_TOKEN": 'pass"wörd\\one'})
        assert MARK in kept, depth
        assert kept == text[: text.index("before")] + f"before {MARK} behind" + text[text.index(" behind") + 7 :]
        text = json.dumps({"in it": text}, ensure_ascii=ascii_only)


@given(st.text(alphabet="abcdeghjkp-ABC019 .:,;@/?=&[]\n\"'", max_size=200), st.dictionaries(VARIABLE, SECRET))
def test_redacting_twice_is_redacting_once(text, environ):
    once = redact(text, environ)
    assert redact(once, environ) == once


@given(
    st.sampled_from(["api_key=", "Bearer ", "token: "]),
    st.sampled_from(["q1w2e3r4t5y6/", "q1w2e3."]),
    st.sampled_from(
        ["ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6", "sk-proj-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6", "AKIAQ3EGRXYZABCD2345"]
    ),
    st.sampled_from(["=q9w8e7r6", ""]),
)
def test_a_key_within_what_is_announced_as_one_leaves_nothing_of_the_longer_one(announced, before, key, after):
    assert redact(f"{announced}{before}{key}{after} is refused", {}) == f"{announced}{MARK} is refused"


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz ,.()'\n", max_size=200))
def test_prose_is_left_alone(text):
    assert redact(text, {"OPENAI_API_KEY": "sk-live-0123456789", "PATH": text, "SHORT_TOKEN": text[:7]}) == text


@pytest.mark.parametrize(
    ("text", "environ", "kept"),
    [
        ("a b c", {"A_TOKEN": "", "B_TOKEN": "a", "C_SECRET": "   "}, "a b c"),
        ("<ABCDEFGH12>", {"A_TOKEN": "ABCDEFGH", "B_TOKEN": "ABCDEFGH12"}, f"<{MARK}>"),
        ("ascending A1b2C3d4E5", {"SORT_KEY": "ascending", "SIGNING_KEY": "A1b2C3d4E5"}, f"ascending {MARK}"),
        ("/home/me/key.json", {"GOOGLE_CREDENTIALS": "/home/me/key.json"}, MARK),
        ("redacted", {"A_TOKEN": "redacted"}, "redacted"),
    ],
    ids=["short", "nested", "a word", "a path", "within the mark"],
)
def test_what_goes_of_the_values_of_variables(text, environ, kept):
    assert redact(text, environ) == kept


AROUND = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="abcdefghijklmnopqrstuvwxyz_-\\"), max_size=30)


@settings(max_examples=cases(100), deadline=None)
@given(st.integers(0, 10**6).map(str), st.sampled_from([*SHAPES]), AROUND, AROUND, st.integers(0, 3))
def test_no_shape_outlives_redact_wherever_it_stands_and_however_often_it_is_escaped(place, shape, before, after, depth):
    key = planted(place)[shape]
    text: Any = f"{before}\n{key.text}\n{after}"
    for _ in range(depth):
        text = json.dumps({"text": text, "next": "stays"})
    kept = redact(text, {})
    assert key.secret not in kept
    assert MARK in kept
    if depth:
        assert json.loads(kept)["next"] == "stays"


@pytest.mark.parametrize("around", ["The key is {}.", "use `{}`, then go on", '["{}", "next"]', "<key>{}</key>", "a={}; b=1"])
def test_every_shape_goes_in_prose_in_code_and_in_a_list(around):
    for shape, key in planted(around).items():
        assert key.secret not in redact(around.replace("{}", key.text), {}), shape


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=60), lambda inner: st.lists(inner, max_size=4)))
def test_json_stays_json(value):
    text = json.dumps({"value": value, "address": "http://me:pass@host/", "key": "sk-abcdefghi0123456789"})
    kept = json.loads(redact(text, {"MY_API_KEY": 'quo"te\\0123456789'}))
    assert kept.keys() == {"value", "address", "key"}


@pytest.mark.parametrize(
    "text",
    [
        "The server had an error while processing your request (HTTP 500)",
        "task-management-system, risk-0123456789-free",
        "mail someone@host.test about http://host.test/a@b",
        "sk-learn-contrib and hf_hub_download_from_a_cache, eyJ, xoxo",
        "input_tokens: 1234567890123456, output_tokens: 12",
        '{"id": "call_0123456789abcdef0123456789abcdef", "digest": "0f1e2d3c4b5a69788796a5b4c3d2e1f00123456789abcdef"}',
        "The token count (1234567890123456789) exceeds the limit",
        '{"password": {"type": "string", "description": "The password of the account."}}',
        "The password must have 8 characters, a digit and a symbol.",
        "password={password} token=${TOKEN} key=<your-key>",
        "A secret: the answer is 42. Token: one of 17.",
        "max_tokens=4096 completion_tokens: 1234567890123456",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    ],
)
def test_what_only_looks_a_little_like_a_key_stays(text):
    assert redact(text, {}) == text


# what a run writes of itself
DIGEST = st.binary(min_size=1, max_size=8).map(lambda data: sha256(data.hex()))
RECEIPT = st.tuples(DIGEST, st.integers()).map(
    lambda drawn: ReceiptEntry(drawn[0][:6], drawn[0][6:10], drawn[1], True, str(drawn[1])).around(str(drawn[1]))
)
PREFIX = st.sampled_from(["call_", "chatcmpl-", "toolu_", "msg_", "run_", "fc_"])
CALL_ID = st.tuples(PREFIX, DIGEST).map(lambda drawn: drawn[0] + drawn[1][:24])
NUMBER = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(10**25), 10**25).map(str)
UUID = st.integers(0, 2**128 - 1).map(lambda number: str(uuid.UUID(int=number)))
TIME = st.datetimes().map(lambda moment: moment.isoformat())
NAME = st.from_regex(r"[a-z]{2,9}(_[a-z]{2,9}){1,4}(_\d{1,4})?", fullmatch=True)
ORDINARY = RECEIPT | CALL_ID | NUMBER | UUID | TIME | NAME | DIGEST
FIELDS = """
id digest sha256 receipt tool_call_id call name value seconds tokens input_tokens max_tokens key next_page_token basic pass passes
passenger bypass secretary tokenizer monkey author authorized cookies valid_key session_key cache_key sort_key idempotency_key
primary_key foreign_key public_key storage_key key_results page_token continuation_token
"""
FIELD = st.sampled_from(FIELDS.split())


@settings(max_examples=cases(100))
@given(st.dictionaries(FIELD, ORDINARY | st.lists(ORDINARY, max_size=3), max_size=6), st.integers(0, 3))
def test_receipts_digests_numbers_uuids_and_ids_stay(fields, depth):
    text: Any = json.dumps(fields)
    for _ in range(depth):
        text = json.dumps({"content": f"It said: {text}"})
    assert redact(text, {}) == text


def test_the_process_environment_is_the_default_and_its_changes_are_seen(monkeypatch):
    monkeypatch.setenv("ONE_TOKEN", "first-value-1")
    assert redact("first-value-1 second-value-2") == f"{MARK} second-value-2"
    monkeypatch.setenv("ONE_TOKEN", "second-value-2")
    assert redact("first-value-1 second-value-2") == f"first-value-1 {MARK}"


SECRET_NAMES = """
PGPASSWORD TOKEN SECRET PASSWORD GITHUB_PAT NPM_TOKEN MYSQL_PWD DB_PASS SMTP_PASS OPENAI_API_KEY_2 APIKEY GH_TOKEN VAULT_TOKEN
SECRET_KEY_BASE OPENAI_API_KEY_PROD OPENAI_KEY_1 API_TOKEN_V2 ENCRYPTION_KEY_V2 TOKEN_GITHUB SLACK_TOKEN_BOT APIKEY_OPENAI PGPASS
WEBHOOK_SECRET_CURRENT PASSWORD_HASH DB_PW MY_CREDS APP_AUTH_HEADER JWT_SIGNING KEY AZURE_STORAGE_CONNECTION_STRING SSH_PASSPHRASE
AWS_SECRET_ACCESS_KEY STORAGE_SAS SENTRY_DSN SESSION_COOKIE REGISTRY_AUTH pgpassword
"""
OTHER_NAMES = """
PWD OLDPWD HOME GIT_AUTHOR MAX_TOKENS SSH_AUTH_SOCK TOKENIZERS_PARALLELISM KEYBOARD PASSAGE TOKEN_LIMIT SECRET_NAME PASSWORD_FILE
SSH_KEY_PATH TOKEN_URL MONKEY
"""


@pytest.mark.parametrize(("names", "said"), [(SECRET_NAMES, MARK), (OTHER_NAMES, "correct horse battery")])
def test_the_name_of_a_variable_tells_whether_it_holds_a_secret(names, said):
    for name in names.split():
        assert redact("said: correct horse battery!", {name: "correct horse battery"}) == f"said: {said}!", name


@pytest.mark.parametrize("name", ["DATABASE_URL", "WHATEVER"])
@pytest.mark.parametrize("password", ["hunter-two-three", "p%40ss%2Fword1", "a/b@c?d#e1"])
def test_the_password_of_an_address_is_a_secret_wherever_it_stands(name, password):
    text = f"password authentication failed for user app with {password} and {unquote(password)}"
    kept = redact(text, {name: f"postgresql://app:{password}@db.test:5432/x"})
    assert password not in kept
    assert unquote(password) not in kept


def test_each_line_of_a_secret_of_several_lines_is_one():
    lines = ["MIIEow" + "abc1" * 14, "QWERTY" + "xyz2" * 14]
    for between in ("\n", r"\n"):
        environ = {"SIGNING_PRIVATE_KEY": between.join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])}
        assert redact(f"line 2: {lines[1]} <", environ) == f"line 2: {MARK} <"


CUT_KEY = "-----BEGIN EC PRIVATE KEY-----\nAbCd1234"
KEY = "sk-proj-" + "a1B2" * 12
TEXTS = st.sampled_from(
    ["plain", CUT_KEY, f"{CUT_KEY}\nEfGh5678", KEY, f"use {KEY} now", json.dumps({"text": CUT_KEY, "next": "kept word"})]
)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "answer", "events"]), inner, max_size=3),
    max_leaves=8,
)


def shape(value):
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


@given(VALUES)
def test_the_texts_of_a_json_value_lose_their_secrets_and_nothing_else_changes(value):
    clean = redact_json(value)
    assert shape(clean) == shape(value)
    text = json.dumps(clean)
    assert "AbCd1234" not in text
    assert KEY not in text
    assert text.count("kept word") == json.dumps(value).count("kept word")
    assert redact_json(clean) == clean


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": "a1b2c3d4e5f6g7h8i9"},
        {"name": "authorization", "value": "Token a1b2c3d4e5f6g7h8i9"},
        [["x-api-key", "a1b2c3d4e5f6g7h8i9"]],
        {"password": "a1b2c3d4e5f6g7h8i9!"},
    ],
)
def test_what_a_name_announces_in_json_goes(value):
    assert "a1b2c3d4e5f6g7h8i9" not in json.dumps(redact_json(value))
    assert MARK in json.dumps(redact_json(value))


LOGGED_KEY = "sk-" + "proj-" + "aB3x" * 9
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
    said = f"{before} {LOGGED_KEY} {after}"

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
            assert LOGGED_KEY not in shown
            assert (MARK in shown) is (told[0] != "no" or error is not None)
    assert written(log, "%s", before, exc_info=raised(after)) == written(plain, "%s", before, exc_info=raised(after))


def test_every_logger_of_ours_is_made_so() -> None:
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
    error = ProviderError(f"refused: {LOGGED_KEY}")

    def ask() -> str:
        """Ask a service."""
        raise RuntimeError(f"refused: {LOGGED_KEY}")

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
    assert LOGGED_KEY not in caplog.text
    assert outcome.details["exception"] is error
