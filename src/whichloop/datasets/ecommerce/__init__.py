"""A shop's back office in a SQLite database: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` holds the tables and draws a shop, `tools.py` what a loop may call, `books.py` the same steps kept by hand for the
expected end state, `case.py` what the stories share, and stories of credits; `goods.py` the others.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from . import case, goods
from .shop import ShopDatabase, draw_shop
from .tools import TOOLS

TEMPLATES = (
    goods.return_, goods.exchange, goods.move, case.price_match, goods.split_refund, case.goodwill, goods.refusal,
    goods.combine, goods.late_parcel, goods.recall, goods.backorder, goods.move_some, case.three_wishes,
)  # fmt: skip
UNANSWERABLE = (goods.unknown_day, goods.no_price, goods.nobody)


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
