"""Checks of loops and suites."""
