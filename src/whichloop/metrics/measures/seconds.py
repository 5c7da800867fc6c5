"""Wall time; under the scripted model the simulated time of slow and hanging faults."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.seconds, order=6)
