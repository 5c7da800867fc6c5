"""Agent frameworks as arms: one file each with the options, and one of the same name in `wiring` with what a user would write.

The wiring runs in the framework's own environment, see `whichloop frameworks install`.
"""
