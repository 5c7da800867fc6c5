"""Each framework's shortest documented agent: `solve(task)`, as in `loopbench.programs.outside.runner`. Imports no loopbench."""
