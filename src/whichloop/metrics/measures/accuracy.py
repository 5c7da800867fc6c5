"""The primary score, in [0, 1]."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.accuracy, order=0, digits=3, is_share=True)
