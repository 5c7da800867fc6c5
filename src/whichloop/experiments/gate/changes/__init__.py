"""What differs between a run and the baseline, or between two baselines: tasks, stops, code, profiles, limits, claims."""
