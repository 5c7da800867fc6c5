"""A shop's back office in a SQLite database: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` holds the tables and draws a shop, `tools.py` what a loop may call, `books.py` the same steps kept by hand for the
expected end state, `case.py` what the stories share. The stories: `goods.py`, `parcels.py`, `money.py`, `unanswerable.py`.
"""

from __future__ import annotations

from functools import partial

from whichloop.datasets.ecommerce import goods as unanswerable

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task
from ..worlds import WorldEnvironment
from . import goods, money, parcels
from .shop import ShopDatabase, draw_shop
from .tools import TOOLS

TEMPLATES = (
    goods.return_, goods.exchange, parcels.move, money.price_match, goods.split_refund, money.goodwill, goods.refusal,
    parcels.combine, parcels.late_parcel, goods.recall, goods.backorder, parcels.move_some, money.three_wishes,
)  # fmt: skip
UNANSWERABLE = (unanswerable.unknown_day, unanswerable.no_price, unanswerable.nobody)


def _open(task: Task) -> WorldEnvironment[ShopDatabase]:
    shop = draw_shop(task.world["shop"])
    shop.put_all(task.world["rows"])
    database = ShopDatabase(shop)
    return WorldEnvironment(TOOLS.bound_to(database), database, ShopDatabase.changes, ShopDatabase.close)


SOURCE = Source(
    "ecommerce",
    "1",
    partial(generate, "ecommerce", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
