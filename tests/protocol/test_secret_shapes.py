"""Every shape of a key goes, wherever it is planted, and what a run writes of itself stays."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.protocol.planted import SHAPES, planted
from tests.protocol.secret_rules import RULES, detectors, selected
from whichloop.models.receipts import ReceiptEntry
from whichloop.protocol.digest import sha256
from whichloop.protocol.redact import MARK, OWN_SHAPES, redact, secrets_around

AROUND = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="abcdefghijklmnopqrstuvwxyz_-\\"), max_size=30)
PLACES = st.integers(0, 10**6).map(str)


def test_more_than_forty_shapes_are_planted_and_no_two_places_share_a_key():
    assert len(SHAPES) > 40
    keys = [key.secret for place in "abc" for key in planted(place).values()]
    assert len({*keys}) == len(keys)
    assert min(map(len, keys)) == 12


@settings(max_examples=cases(100), deadline=None)
@given(PLACES, st.sampled_from([*SHAPES]), AROUND, AROUND, st.integers(0, 3))
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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_goes_in_prose_in_code_and_in_a_list(shape):
    for place, around in enumerate(
        ("The key is {}.", "use `{}`, then go on", "({})", '["{}", "next"]', "<key>{}</key>", "a={}; b=1")
    ):
        key = planted(str(place))[shape]
        assert key.secret not in redact(around.replace("{}", key.text), {})


# --- the rules that others maintain ---

UNTAKEN = {
    "IPPublicDetector": "an address of a server is not a secret",
    "ArtifactoryDetector": "AP and nine characters may be anything; its keys have 73",
    "BasicAuthDetector": "it takes passwords that no address can have, such as `<`",
    "CloudantDetector": "a name before the key, with rules of our own",
    "IbmCloudIamDetector": "a name before the key, with rules of our own",
    "IbmCosHmacDetector": "a name before the key, with rules of our own",
    "JwtTokenDetector": "parts of one character, which it checks afterwards",
    "NpmDetector": "a name before the key, with rules of our own",
    "PrivateKeyDetector": "the first line alone, which holds no key",
    "SquareOAuthDetector": "backslashes, which its keys do not have",
    "SoftlayerDetector": "a name before the key, with rules of our own",
}
"""Detectors that find what need not go."""
NAMED = ("AWSKeyDetector", 1)
"""A rule that looks for a name before the key."""
PATTERNS = [
    pytest.param(pattern, id=f"{type(detector).__name__}-{number}")
    for detector in detectors()
    for number, pattern in enumerate(detector.denylist)
    if type(detector).__name__ not in UNTAKEN and (type(detector).__name__, number) != NAMED
]


def test_detectors_that_are_left_out_exist():
    assert {*UNTAKEN} <= {type(detector).__name__ for detector in detectors()}
    assert len(PATTERNS) > 15


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_detect_secrets_finds_goes_too(pattern: re.Pattern[str]):
    @settings(max_examples=cases(10), deadline=None)
    @given(st.from_regex(re.compile(pattern.pattern, pattern.flags & ~re.UNICODE | re.ASCII), fullmatch=True))
    def check(text):
        if re.search(r"\d", text) and len(text) >= 16:
            assert redact(f"found {text} there", {}) != f"found {text} there"

    check()


@settings(max_examples=cases(75), deadline=None)
@given(st.data())
def test_what_a_rule_taken_over_describes_goes_whole(data):
    rules = json.loads(RULES.read_text(encoding="utf-8"))["rules"]
    assert len(rules) > 80
    name = data.draw(st.sampled_from([*rules]))
    key = data.draw(st.from_regex(re.compile(rules[name], re.ASCII), fullmatch=True).filter(re.compile(r"\d").search))
    kept = redact(json.dumps({"said": f"it is {key}"}), {})
    assert json.loads(kept) == {"said": f"it is {MARK}"}


def test_the_rules_are_those_that_the_command_takes_over():
    """Of detect-secrets all of them; the file of gitleaks is not kept here."""
    rules = json.loads(RULES.read_text(encoding="utf-8"))["rules"]
    assert {name: regex for name, regex in rules.items() if name.startswith("detect-secrets")} == selected("rules = []")


def test_a_rule_of_go_becomes_one_of_python():
    rule = "[[rules]]\nid = \"it\"\nregex = '''\\b(acme_(?i)[[:alnum:]]{20}(?:x|(y)))(?:[\\x60'\"\\s;]|\\\\[nr]|$)'''\n"
    (regex,) = (regex for name, regex in selected(rule).items() if name == "gitleaks: it")
    assert regex == "(?:acme_(?i:[A-Za-z0-9]{20}(?:x|(?:y))))"


@pytest.mark.parametrize("regex", ["[a-f0-9]{32}", "4b1d[A-Za-z0-9]{38}", "key.{20}", "acme_[^x]{20}", "acme \\w{20}", "acme_no"])
def test_a_rule_that_would_find_digests_sentences_or_words_is_not_taken_over(regex):
    assert not any(name.startswith("gitleaks") for name in selected(f"[[rules]]\nid = 'it'\nregex = '''{regex}'''\n"))


def test_every_shape_of_our_own_has_a_source():
    assert all(shape.source and re.compile(shape.regex) for shape in OWN_SHAPES)
    assert len({shape.regex for shape in OWN_SHAPES}) == len(OWN_SHAPES)


# --- what a run writes of itself ---

DIGEST = st.binary(min_size=1, max_size=8).map(lambda data: sha256(data.hex()))
RECEIPT = st.tuples(DIGEST, st.integers()).map(
    lambda drawn: ReceiptEntry(drawn[0][:6], drawn[0][6:10], drawn[1], True, str(drawn[1])).signed
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


@pytest.mark.parametrize(
    "text",
    [
        "password: missing or malformed",
        '{"password": {"type": "string", "description": "The password of the account."}}',
        '{"properties": {"token": {"type": "string"}, "api_key": {"type": "string"}}}',
        "The password must have 8 characters, a digit and a symbol.",
        "login(user: str, password: str) -> str",
        "password={password} token=${TOKEN} key=<your-key>",
        "A secret: the answer is 42. Token: one of 17.",
        "pwd=/home/me/work",
        "compass: 12.5, passed: 1234567890",
        '{"token": "123e4567-e89b-12d3-a456-426614174000", "secret": "call_0123456789abcdef01234567"}',
        "max_tokens=4096 completion_tokens: 1234567890123456",
        "cookies: 12 chocolate, 13 plain",
        "tests/test_auth.py::test_basic PASSED in 0.1234567s",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    ],
)
def test_ordinary_text_stays(text):
    assert redact(text, {}) == text


# --- cost ---


PIECES = st.sampled_from(["sk-", "token=", "a1B2c3d4e5f6g7h8", ":", " ", "Bearer ", "-----BEGIN PRIVATE KEY-----", '"', "\\"])


@settings(max_examples=cases(50), deadline=None)
@given(st.lists(PIECES, max_size=300))
def test_what_is_looked_at_for_keys_grows_with_the_text(pieces):
    text = "".join(pieces)
    looked = []

    def around(text: str, start: int, end: int) -> list[tuple[int, int]]:
        looked.append(end - start)
        return secrets_around(text, start, end)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("whichloop.protocol.redact.secrets_around", around)
        redact(text, {})
    assert sum(looked) <= len(text)
