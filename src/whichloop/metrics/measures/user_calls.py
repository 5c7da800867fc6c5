"""Requests to a model that plays the task's user, which are none of the agent's."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.user_counts.get("calls"), order=20, label="user calls", of_some=True)
