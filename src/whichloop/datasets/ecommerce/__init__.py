"""A shop's back office: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` draws a shop, `tools.py` what a loop may call, `case.py` what the stories share, `goods.py` the
stories.
"""

from __future__ import annotations

from ..story import told_suite
from .case import Case, open_shop
from .goods import STORIES, UNANSWERABLE

SOURCE = told_suite("ecommerce", "1", Case, (STORIES, UNANSWERABLE), open_shop)
SUITE = load = SOURCE.suite
