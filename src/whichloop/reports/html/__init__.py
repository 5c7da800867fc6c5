"""Documents and charts as self-contained HTML pages: nothing is loaded from anywhere, and every text that is not ours is data.

What makes pages loads when one is made: a page that is there already needs none of it.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {"whichloop.reports.html.page": ("collection_html", "doc_html", "optimization_html", "report_html")}

__getattr__, __dir__ = lazy(__name__, _HOMES)
