"""US dollars billed."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.cost_usd, order=4, digits=5, label="USD with cache", in_dollars=True)
