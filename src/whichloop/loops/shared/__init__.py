"""What the designs share: the boundary around a run, its arguments, options, events and ids of calls."""
