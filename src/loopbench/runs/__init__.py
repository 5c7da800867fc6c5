"""One trial, and the run directory that its record lands in."""
