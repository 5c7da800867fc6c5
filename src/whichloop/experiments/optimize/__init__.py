"""Optimizing the prompts of each design on an equal budget, with a test of the gain on locked tasks."""
