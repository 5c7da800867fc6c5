"""Run loops over a suite, go on with a run, and say what came of it."""
