"""A quote in a table that is never closed is told with the line in which it is opened."""

from __future__ import annotations

import csv
import io
import re

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest
from whichloop.experiments.import_runs.importing import read_file

CELLS = st.text(st.sampled_from('ab",\n; '), max_size=6)


@given(st.lists(CELLS, min_size=2, max_size=8), st.text(st.sampled_from("ab,\n"), max_size=9))
def test_whatever_stands_before_and_after_it(kit, cells, rest):
    """The law: the line is that of the quote, however many lines the cells before it, and what it takes in, have."""
    file = io.StringIO()
    made = csv.writer(file, lineterminator="\n")
    made.writerow(["task", "score", "note"])
    made.writerows([f"t{number}", 1, cell] for number, cell in enumerate(cells))
    line = file.getvalue().count("\n") + 1
    refused = ""
    try:
        read_file(kit.put(f'{file.getvalue()}last,1,"{rest}', ".csv"), ImportRequest())
    except ValueError as error:
        refused = str(error)
    assert re.search(rf": line {line}: a quote is opened here and never closed; close it, or write \"\" for a quote", refused)
