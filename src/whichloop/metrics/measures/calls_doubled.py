"""Share of the model's calls that the loop made again after they had given their result, more often than the model asked for."""

from functools import partial

from ..calls import calls_share
from ..measure import Measure

MEASURE = Measure(
    partial(calls_share, part="doubled"),
    order=17,
    digits=3,
    label="calls doubled",
    is_share=True,
    is_harm=True,
    of_some=True,
    table="calls",
)
