"""Agents that are not ours as arms: frameworks, a user's function, and any executable, unchanged, behind an OpenAI endpoint."""
