"""Two ledgers, and tables of prices that say what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.prices import Price, read_prices
from whichloop.protocol import Usage

DOLLARS = st.floats(0, 1000)
PRICES = st.builds(
    lambda low, high, output, has: Price(max(low, high), output, min(low, high) if has else None),
    DOLLARS,
    DOLLARS,
    DOLLARS,
    st.booleans(),
)
USAGES = st.builds(lambda fresh, cached, output: Usage(fresh + cached, output, cached), *[st.integers(0, 10**7) for _ in range(3)])
CLOSE = 1e-9


@given(PRICES, USAGES)
def test_nothing_costs_more_from_a_cache_and_nothing_less_than_nothing(price, usage):
    priced = price.on(usage)
    assert priced.nominal_usd >= priced.cost_usd >= 0
    assert (priced.input_tokens, priced.output_tokens, priced.cached_tokens) == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
    )


@given(PRICES, USAGES, USAGES)
def test_the_cost_of_two_replies_is_that_of_their_tokens(price, one, other):
    apart, together = price.on(one) + price.on(other), price.on(one + other)
    assert apart.cost_usd == pytest.approx(together.cost_usd, rel=1e-6, abs=CLOSE)
    assert apart.nominal_usd == pytest.approx(together.nominal_usd, rel=1e-6, abs=CLOSE)


@given(PRICES, st.integers(0, 10**7), st.integers(0, 10**7))
def test_without_a_cache_the_ledgers_are_equal(price, given_, taken):
    priced = price.on(Usage(given_, taken))
    assert priced.cost_usd == priced.nominal_usd


def test_a_million_tokens_cost_the_price():
    priced = Price(0.15, 0.6, 0.075).on(Usage(1_000_000, 1_000_000, 500_000))
    assert priced.nominal_usd == pytest.approx(0.75)
    assert priced.cost_usd == pytest.approx(0.7125)
    assert Price(0.15, 0.6).on(Usage(1_000_000, 0, 500_000)).cost_usd == pytest.approx(0.15)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "prices.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_table_is_read(tmp_path):
    text = (
        '["openai/gpt-4o-mini"]\ninput = 0.15\noutput = 0.6\ncached_input = 0.075\n["ollama_chat/llama3"]\ninput = 0\noutput = 0\n'
    )
    assert read_prices(write(tmp_path, text)) == {
        "openai/gpt-4o-mini": Price(0.15, 0.6, 0.075),
        "ollama_chat/llama3": Price(0, 0),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["m"]\ninput = 1\noutput = nan', "'m': output must be a number of US dollars per million tokens, such as 0.15, not nan"),
        ('["m"]\ninput = inf\noutput = 1', "input must be a number"),
        ('["m"]\ninput = -1\noutput = 1', "input must be a number of US dollars per million tokens, such as 0.15, not -1"),
        ('["m"]\ninput = "1"\noutput = 1', "input must be a number"),
        ('["m"]\ninput = true\noutput = 1', "input must be a number"),
        ('["m"]\ninput = 1\noutput = 1\ncached_input = 2', "cached_input must not exceed input: 2 > 1"),
        ('["m"]\ninput = 1\noutput = 1\ncached_imput = 2', "unknown key 'cached_imput'; did you mean 'cached_input'?"),
        ("[openai.gpt-4o]\ninput = 1\noutput = 1", "unknown key 'gpt-4o'; model names with a dot or slash stand in quotes"),
        ('["m"]\ninput = 1', "'m': output is missing"),
        ("m = 1", "'m': write a table for each model"),
        ("[m", "Expected"),
        (b"\xff", "utf-8"),
    ],
)
def test_a_bad_table_is_one_clear_line(tmp_path, text, said):
    with pytest.raises(ValueError, match="prices ") as caught:
        read_prices(write(tmp_path, text))
    assert said in str(caught.value)
    assert "prices.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_table_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"prices .*none\.toml: No such file"):
        read_prices(tmp_path / "none.toml")
