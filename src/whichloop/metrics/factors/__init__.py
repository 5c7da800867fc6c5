"""Ablations: which cells to run, and the effects of a loop's options."""
