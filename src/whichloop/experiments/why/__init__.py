"""The first divergence of two designs on a task, and the cause of a loss."""
