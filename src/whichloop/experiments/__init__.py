"""From a configuration to a run directory: schedule, trial, runner, journal, tracking, comparison, report."""
