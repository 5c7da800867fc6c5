"""The size that a run needs, computed from a pilot: the noise, the effects that the pilot can show, and the size for a margin.

part.py     the loops and profiles that a run is planned for
pilot.py    a run as a source of variances and prices
sizes.py    noise, reach, and the sizes that suffice
caveats.py  the caveats
tables.py   the result as sentences and tables
"""

from __future__ import annotations

from .pilot import PURPOSES as PURPOSES
from .pilot import Purpose as Purpose
from .pilot import SizeRequest as SizeRequest
from .size import Sizing as Sizing
from .size import size as size
