"""Share of the prompts' bytes that repeat the beginning of an earlier prompt."""

from ..context import prefix_stability
from ..measure import Measure

MEASURE = Measure(prefix_stability, order=8, digits=3, label="prefix stability", is_share=True, table="context")
