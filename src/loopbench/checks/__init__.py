"""Whether a loop or a suite can be trusted."""
