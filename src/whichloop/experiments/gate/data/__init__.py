"""The gate's plain data: the baseline's file, a run beside it, arm by arm, and the result."""
