"""Tokens of a model that plays the task's user, which are none of the agent's."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.user_tokens, order=21, digits=0, label="user tokens", of_some=True)
