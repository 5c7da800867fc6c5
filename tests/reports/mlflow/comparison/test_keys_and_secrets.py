"""Keys that MLflow takes, addresses without passwords, and configurations as fields."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric_name, _validate_param_name

from whichloop.protocol.redact import public_address
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow.addresses import reason

IN_ONE_FORK = "the comparison that is logged once"

NAMES = st.text(max_size=300) | st.from_regex(r"[\w./ :()=-]{1,40}", fullmatch=True)


@settings(deadline=None)
@given(NAMES, NAMES)
@example("..", "../..")
@example("..a", "./a")
@example("a=1", "a 1")
def test_every_text_has_a_key_of_its_own_that_mlflow_takes(one, other):
    key = tracking.metric_key(one)
    _validate_metric_name(key)
    _validate_param_name(key)
    assert len(key) <= 250
    assert (key == tracking.metric_key(other)) == (one == other)


@pytest.mark.parametrize("plain", ["accuracy", "errors.tool.KeyError", "config.max_steps", "a b:c-d_e"])
def test_a_plain_name_is_its_own_key(plain):
    assert tracking.metric_key(plain) == plain


PASSWORDS = st.text(st.sampled_from("abcXYZ0189/@:%+-_.!?#"), min_size=8, max_size=20).map(lambda text: f"Pw{text}wP")


@settings(deadline=None)
@given(st.sampled_from(["postgresql", "mysql+pymysql", "https", "http"]), PASSWORDS)
def test_a_password_is_never_shown(scheme, password):
    for spelling in (password, quote(password, safe="")):
        address = f"{scheme}://user:{spelling}@db.example.test:5432/mlflow"
        error = RuntimeError(f"cannot reach {address}:\n password {spelling} refused; token={password} Bearer {password}")
        for shown in (
            public_address(f"see '{address}' and {address}"),
            tracking.ui_command(address),
            tracking.ui_command(f"{scheme}://db.example.test/mlflow?sslpassword={quote(password, safe='')}&a=b"),
            reason(error, address),
        ):
            assert password not in shown
            assert spelling not in shown
            assert "\n" not in shown


@pytest.mark.parametrize(
    "text", ["sqlite:////home/me@work/key=1/mlflow.db", "http://127.0.0.1:5000/#/experiments/1", "a token is missing"]
)
def test_what_is_no_secret_is_shown(text):
    assert public_address(text) == text


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{2}_[a-z]{1,6}", fullmatch=True), LITERALS, max_size=4))
def test_a_configuration_is_read_field_by_field(fields):
    text = f"Design({', '.join(f'{name}={value!r}' for name, value in fields.items())})"
    assert tracking.config_fields(text) == {f"config.{name}": value for name, value in fields.items()}


@pytest.mark.parametrize("text", ["<pkg.Loop object at 0x7f>", "Loop(3)", "Loop(**x)", "", "a\x00b", "7"])
def test_a_configuration_that_is_no_call_stays_whole(text):
    assert tracking.config_fields(text) == {"configuration": text}


def test_a_value_that_is_no_literal_is_kept_as_text():
    assert tracking.config_fields("Loop(inner=Bare(max_steps=3), limit=inf)") == {
        "config.inner": "Bare(max_steps=3)",
        "config.limit": "inf",
    }
