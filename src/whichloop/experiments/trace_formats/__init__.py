"""Traces in the formats of other tools: what such a format says as events of ours, and our events in such a format."""
