"""Share of the trials with an instruction in a result that showed one to the model."""

from ..injection import share_reaching

MEASURE = share_reaching("shown", "injection shown", order=10)
