"""Run trials, and keep their records in a run directory."""
