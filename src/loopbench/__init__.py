"""A wind tunnel for agent loops."""
