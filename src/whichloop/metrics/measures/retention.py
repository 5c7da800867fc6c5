"""Share of the results that prompts still show when they need them."""

from ..context import retention
from ..measure import Measure

MEASURE = Measure(retention, order=7, digits=3, is_share=True, table="context")
