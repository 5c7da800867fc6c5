"""Share of the model's calls that did not run, or whose result was not shown."""

from functools import partial

from ..calls import calls_share
from ..measure import Measure

MEASURE = Measure(
    partial(calls_share, part="lost"),
    order=16,
    digits=3,
    label="calls lost",
    is_share=True,
    is_harm=True,
    of_some=True,
    table="calls",
)
