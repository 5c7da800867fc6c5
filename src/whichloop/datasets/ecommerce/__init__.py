"""A shop's back office: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` draws a shop, `tools.py` what a loop may call, `case.py` what the stories share, `goods.py` the
stories.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from .case import open_shop
from .goods import TEMPLATES, UNANSWERABLE

SOURCE = Source(
    "ecommerce",
    "1",
    partial(generate, "ecommerce", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    open_shop,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
