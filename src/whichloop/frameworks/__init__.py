"""Agent frameworks as arms: a table with their options, and a file for each in `wiring` with what a user would write.

The wiring runs in the framework's own environment, see `whichloop install`.
"""
