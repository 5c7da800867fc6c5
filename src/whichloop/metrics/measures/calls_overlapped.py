"""Share of the calls made beside what they need done that began before it was done."""

from functools import partial

from ..calls import calls_share
from ..measure import Measure

MEASURE = Measure(
    partial(calls_share, part="overlapped", whole="early"),
    order=19,
    digits=3,
    label="write and read overlapped",
    is_share=True,
    is_harm=True,
    of_some=True,
    table="calls",
)
