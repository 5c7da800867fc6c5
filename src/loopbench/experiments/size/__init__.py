"""How large a run has to be, worked out from a pilot: what chance alone does, what the pilot can show, what a margin takes.

pilot.py    a run as a source of variances and prices
sizes.py    noise, reach, and the sizes that suffice
caveats.py   what to keep in mind
tables.py   all of it as sentences and tables
"""

from __future__ import annotations

from .pilot import PURPOSES as PURPOSES
from .pilot import Purpose as Purpose
from .pilot import SizeRequest as SizeRequest
from .size import Sizing as Sizing
from .size import size as size
