"""What the tokens of the scripted model cost: nobody bills them, and a comparison in dollars wants to know."""

from __future__ import annotations

from pathlib import Path

from whichloop._extras import needed_by
from whichloop.models.prices import FORM, Price, PriceTag, read_prices, read_tag
from whichloop.protocol.modules import module_in

from .config import CompareConfig, SettingError


def with_scripted_price(config: CompareConfig) -> CompareConfig:
    """Return the configuration with its price as numbers, so that lists and files that change later change nothing.

    Raises SettingError for what is no price, a model that no list has, or a file of prices that nothing is looked up in.
    """
    if config.price is None:
        return config
    file = config.provider.prices
    try:
        tag = read_tag(config.price)
        if tag is not None and file is not None:
            raise ValueError(f"{config.price} needs no file of prices; leave --prices out, or name a model of {file}")
        tag = tag or PriceTag(_looked_up(config.price, file), config.price)
    except ValueError as error:
        raise SettingError("price", str(error)) from None
    return config.model_copy(update={"price": str(tag), "provider": config.provider.model_copy(update={"prices": None})})


def scripted_price(config: CompareConfig) -> Price | None:
    """Return the price of the scripted model's tokens; None where it has none. Raises SettingError as `with_scripted_price`."""
    price = with_scripted_price(config).price
    tag = None if price is None else read_tag(price)
    return None if tag is None else tag.price


def _looked_up(name: str, file: Path | None) -> Price:
    """Return a model's price from the user's file, else from the list that DSPy ships."""
    own = {} if file is None else read_prices(file)
    if name in own:
        return own[name]
    with needed_by(f"the list price of {name}"):
        amounts = module_in("whichloop", "dspy_seam").listed_price(name)  # imports DSPy, which takes seconds
    if not amounts:
        where = "the list of prices that DSPy ships" if file is None else f"{file}, nor in the list of prices that DSPy ships"
        raise ValueError(f"{name!r} is not in {where}; write {FORM}")
    return Price(*amounts)
