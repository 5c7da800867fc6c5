"""The configuration: a TOML file, flags over it, one model; every mistake is one line that names field and source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from whichloop.runs.config import BudgetConfig, CompareConfig, SettingError, budget_text, config_from, load_config, typed_limits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*CompareConfig.model_fields, "loop", "task", "budgets", "x"])


def is_one_line(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text) < 1_500


@given(st.dictionaries(FIELDS, JSON, max_size=4))
def test_any_values_are_a_configuration_or_one_line(data):
    config, said = None, ""
    try:
        config = config_from(data, "here")
    except ValueError as error:
        said = str(error)
    if config is None:
        assert is_one_line(said)
        assert said.startswith("here: ")
    else:
        assert config_from(json.loads(json.dumps(config.public(), allow_nan=False)), "again") == config


TOML_LINE = st.tuples(FIELDS, JSON).map(lambda pair: f"{pair[0]} = {json.dumps(pair[1])}") | st.text(max_size=30)


@given(st.lists(TOML_LINE, max_size=5).map("\n".join) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_text_of_a_file_is_a_configuration_or_one_line(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("config") / "run.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    said = f"{file}: read"
    try:
        load_config(file, {})
    except ValueError as error:
        said = str(error)
    assert is_one_line(said)
    assert said.startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"loop = ['bare']", "loop: there is no such setting; did you mean 'loops'"),
        (b"[budget]\ncals = 3", r"budget\.cals: there is no such setting"),
        (b"loops = ['bare', 'bare']", "loops: 'bare' is given twice$"),
        (b"profiles = ['clean', 'clean']", "profiles: 'clean' is given twice"),
        (b"trial_timeout_s = inf", "trial_timeout_s: .*finite"),
        (b"trial_timeout_s = 0.001", "trial_timeout_s: .*0.25.*0.001"),
        (b"alpha = nan", "alpha: "),
        (b"[budget]\ndollars = inf", r"budget\.dollars: .*finite"),
        (b"\xef\xbb\xbf\xff", "not valid TOML"),
        (b"a = " + b"[" * 20_000, "not valid TOML"),
        (b"seed = " + b"9" * 5_000, "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_file_and_field(tmp_path, text, said):
    file = tmp_path / "run.toml"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=said) as caught:
        load_config(file, {})
    assert str(caught.value).startswith(str(file))
    assert is_one_line(str(caught.value))


FLAGS: dict[str, Any] = {
    "suite": "gsm8k",
    "seed": 7,
    "tasks": 3,
    "mlflow": False,
    "real_time": True,
    "loops": ("bare",),
    "budget": {"calls": 5},
}


@given(st.sets(st.sampled_from(sorted(FLAGS))), st.sets(st.sampled_from(["suite", "seed", "tasks"])))
def test_a_flag_wins_over_the_file_and_what_neither_says_is_the_default(tmp_path_factory, typed, written):
    file = tmp_path_factory.mktemp("config") / "run.toml"
    in_file = {"suite": "x", "seed": 1, "tasks": 9}
    file.write_text("\n".join(f"{name} = {json.dumps(in_file[name])}" for name in written))
    flags = {name: (value if name in typed else None) for name, value in FLAGS.items()}
    config = load_config(file, flags)
    default = CompareConfig()
    for name in FLAGS:
        expected = FLAGS[name] if name in typed else in_file[name] if name in written else getattr(default, name)
        found = getattr(config, name)
        assert (found.model_dump(exclude_none=True) if name == "budget" and name in typed else found) == expected


def places(model=CompareConfig, before=()):
    """Where each field stands, those of sections too."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from places(section, (name,))
        else:
            yield (*before, name)


@pytest.mark.parametrize("place", [*map(".".join, places())])
def test_each_mistake_in_what_was_typed_names_the_setting(place):
    section, _, name = place.rpartition(".")
    typed = {section: {name: object()}} if section else {name: object()}
    with pytest.raises(SettingError) as raised:
        config_from(typed, "run.toml", typed=typed)
    assert raised.value.setting == place


@pytest.mark.parametrize("text", ["", "some", "sample", "sample=0", "sample=-1", "sample=1.5", "sample=٣", "all\n"])
def test_which_traces_are_kept_is_said_in_words(text):
    with pytest.raises(ValueError, match=r"^here: traces: String should match"):
        config_from({"traces": text}, "here")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("http://host/v1", "http://host/v1"),
        ("http://me:secret@host:8000/v1", "http://host:8000/v1"),
        ("http://me:se@cret@host/v1?x=a", "http://host/v1?x=a"),
        ("postgresql+psycopg2://me:secret@host/db", "postgresql+psycopg2://host/db"),
    ],
)
def test_user_and_password_of_an_address_are_not_written_down(address, public):
    made = CompareConfig(models=("openai/x",), base_url=address, tracking_uri=address).public()
    assert (made["base_url"], made["tracking_uri"]) == (public, public)
    assert "secret" not in json.dumps(made)


COUNTS = st.none() | st.integers(1, 10**15)
DOLLARS = st.none() | st.floats(1e-6, 1e15, allow_nan=False)


@given(COUNTS, COUNTS, DOLLARS)
def test_a_budget_comes_back_from_its_text(calls, tokens, dollars):
    assume((calls, tokens, dollars) != (None, None, None))
    budget = BudgetConfig(calls=calls, tokens=tokens, dollars=dollars)
    assert BudgetConfig(**typed_limits(budget_text(budget))) == budget


@given(st.text() | st.text("0123456789.,e+-$ calstokendru", max_size=20))
def test_any_text_is_a_budget_or_refused_in_one_line(text):
    found, said = None, ""
    try:
        found = BudgetConfig(**typed_limits(text))
    except ValueError as error:
        said = str(error)
    assert found != BudgetConfig()
    assert bool(said) == (found is None)
    assert "\n" not in said
    assert len(said) < 1500


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2000", {"calls": 2000}),
        ("1.5e6tokens", {"tokens": 1_500_000}),
        ("$2.50", {"dollars": 2.5}),
        ("2.5dollars", {"dollars": 2.5}),
        ("2000calls, $1,300tokens", {"calls": 2000, "dollars": 1.0, "tokens": 300}),
    ],
)
def test_each_form_of_a_budget_is_read(text, budget):
    assert typed_limits(text) == budget


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write calls, tokens, dollars or seconds"),
        ("$5calls", "write calls, tokens, dollars or seconds"),
        ("0calls", "greater than or equal to 1"),
        ("1e99tokens", "exceeded maximum size"),
    ],
)
def test_a_budget_of_any_other_form_is_refused_with_the_right_one(text, said):
    with pytest.raises(ValueError, match=said):
        BudgetConfig(**typed_limits(text))
