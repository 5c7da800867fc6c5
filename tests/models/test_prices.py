"""Two ledgers, and tables of prices that say what is wrong with them."""

from __future__ import annotations

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


@given(PRICES, USAGES, USAGES)
def test_the_cost_of_two_replies_is_that_of_their_tokens_and_a_cache_makes_nothing_dearer(price, one, other):
    apart, together = price.on(one) + price.on(other), price.on(one + other)
    assert apart.cost_usd == pytest.approx(together.cost_usd, rel=1e-6, abs=1e-9)
    assert apart.nominal_usd == pytest.approx(together.nominal_usd, rel=1e-6, abs=1e-9)
    assert together.nominal_usd >= together.cost_usd >= 0
    fresh = price.on(Usage(one.input_tokens, one.output_tokens))
    assert fresh.cost_usd == fresh.nominal_usd


def test_a_million_tokens_cost_the_price():
    priced = Price(0.15, 0.6, 0.075).on(Usage(1_000_000, 1_000_000, 500_000))
    assert priced.nominal_usd == pytest.approx(0.75)
    assert priced.cost_usd == pytest.approx(0.7125)
    assert Price(0.15, 0.6).on(Usage(1_000_000, 0, 500_000)).cost_usd == pytest.approx(0.15)


def test_a_table_is_read(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        '["openai/gpt-4o-mini"]\ninput = 0.15\noutput = 0.6\ncached_input = 0.075\n["ollama_chat/llama3"]\ninput = 0\noutput = 0\n'
    )
    assert read_prices(path) == {"openai/gpt-4o-mini": Price(0.15, 0.6, 0.075), "ollama_chat/llama3": Price(0, 0)}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *((f'["m"]\ninput = {value}\noutput = 1', "'m': input must be a number") for value in ("inf", "-1", '"1"', "true")),
        ('["m"]\ninput = 1\noutput = 0\ncached_input = nan', "'m': cached_input must be a number"),
        ('["m"]\ninput = 1\noutput = 1\ncached_input = 2', "'m': cached_input must not exceed input"),
        ('["m"]\ninput = 1\noutput = 1\ncached_imput = 2', "'m': write "),
        ("[openai.gpt-4o]\ninput = 1\noutput = 1", "'openai': write "),
        ('["m"]\ninput = 1', "'m': write "),
        ("m = 1", "'m': write "),
        ("[m", ""),
        (b"\xff", "utf-8"),
        (None, "No such file"),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_file_and_the_model(tmp_path, text, named):
    path = tmp_path / "prices.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"^prices .*prices.toml: .*{named}") as caught:
        read_prices(path)
    assert "\n" not in str(caught.value)
