"""A shop's back office in a SQLite database: returns, exchanges, credits and addresses, judged on the end state as well.

`shop.py` holds the tables and draws a shop, `tools.py` what a loop may call, `books.py` the same steps kept by hand for the
expected end state, `case.py` what the stories share, `stories.py` the tasks.
"""

from .stories import SOURCE, load

SUITE = load

__all__ = ["SOURCE", "SUITE", "load"]
