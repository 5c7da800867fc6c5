"""Share of the results that prompts give for another call than the one that gave them."""

from functools import partial

from ..calls import calls_share
from ..measure import Measure

MEASURE = Measure(
    partial(calls_share, part="mispaired", whole="paired"),
    order=18,
    digits=3,
    label="results paired with the wrong call",
    is_share=True,
    is_harm=True,
    of_some=True,
    table="calls",
)
