"""Where two designs part on a task, and why one of them loses."""
