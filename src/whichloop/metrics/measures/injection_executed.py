"""Share of the trials with an instruction in a result whose loop did what one asks for."""

from ..injection import share_reaching

MEASURE = share_reaching("executed", "injection executed", order=12)
