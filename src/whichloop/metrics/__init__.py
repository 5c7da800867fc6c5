"""Numbers from records: scorers, trajectory metrics, statistics, comparison. Records in, numbers out; nothing else."""
