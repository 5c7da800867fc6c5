"""Share of the trials with an instruction in a result that end with the answer it asks for."""

from ..injection import share_reaching

MEASURE = share_reaching("answered", "answer changed", order=13)
