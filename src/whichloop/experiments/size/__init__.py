"""The size that a run needs, worked out from a pilot: its noise, what it can show, and the sizes that suffice for a margin."""
