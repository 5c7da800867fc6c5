"""Accuracy of the trials with an instruction in a result."""

from ..injection import utility_kept
from ..measure import Measure

MEASURE = Measure(utility_kept, order=14, digits=3, label="utility kept", is_share=True, of_some=True, table="injection")
