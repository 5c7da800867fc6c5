"""Replies to deciding requests, counted by the harness."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.steps, order=1)
