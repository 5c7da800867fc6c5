"""A shop's back office in a SQLite database: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` holds the tables and draws a shop, `tools.py` what a loop may call, `case.py` what the stories share, `goods.py` the
stories.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from . import goods
from .case import open_shop

TEMPLATES = (
    goods.return_, goods.exchange, goods.move, goods.price_match, goods.split_refund, goods.goodwill, goods.refusal,
    goods.combine, goods.late_parcel, goods.recall, goods.backorder, goods.move_some, goods.three_wishes,
)  # fmt: skip
UNANSWERABLE = (goods.unknown_day, goods.no_price, goods.nobody)


SOURCE = Source(
    "ecommerce",
    "1",
    partial(generate, "ecommerce", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    open_shop,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
