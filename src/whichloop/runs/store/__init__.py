"""The files of a run directory: the journal, records, traces and the lock."""
