"""Calls of the model, whatever they are for."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.lm_calls, order=2, label="LM calls")
