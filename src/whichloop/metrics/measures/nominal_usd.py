"""US dollars, had nothing come from a cache, the provider's or a recording."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.nominal_usd, order=5, digits=5, label="USD uncached", in_dollars=True)
