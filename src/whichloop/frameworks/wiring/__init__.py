"""Each framework's shortest documented agent: `solve(task)`, as in `whichloop.programs.outside.runner`. Imports no whichloop."""
