"""A DataFrame from plain values. The one module of the reports that imports pandas, which is an extra and takes half a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from whichloop.protocol import render_value


def column(values: Sequence[Any], dtype: str) -> pd.Series[Any]:
    """Return a column. `dtype`: pandas' name of its type; times are given in seconds since 1970."""
    if dtype.startswith("datetime64"):
        seconds = pd.Series(values, dtype="float64")
        return pd.to_datetime(seconds, unit="s", utc=True, errors="coerce").dt.as_unit("us")
    if dtype == "string":
        values = [None if value is None else render_value(value) for value in values]
    elif dtype in ("int64", "bool"):
        values = [0 if value is None else value for value in values]  # what is not there was not counted
    return pd.Series(list(values), dtype=pd.api.types.pandas_dtype(dtype))


def frame(columns: Mapping[str, pd.Series[Any]]) -> pd.DataFrame:
    """Return a DataFrame of columns."""
    return pd.DataFrame(columns)
