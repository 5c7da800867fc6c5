"""Input and output tokens of all calls."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.tokens, order=3, digits=0)
