"""US dollars billed for a model that plays the task's user, which are none of the agent's."""

from ..measure import Measure

MEASURE = Measure(lambda record: record.user_cost_usd, order=22, digits=5, label="user USD", in_dollars=True, of_some=True)
