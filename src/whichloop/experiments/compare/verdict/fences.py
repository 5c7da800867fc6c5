"""Replies whose JSON stands in a code fence: the kind of fault, and the option by which a loop reads them."""

FENCED = "wire.fenced"
FENCES, REFUSED, READ = "fences", "refuse", "read"
"""The option, its default, and the value with which such replies are read."""
