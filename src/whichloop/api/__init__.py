"""whichloop from Python, one call per question: `compare`, `gate`, `optimize`, `size`, `why`.

Loops, suites and scorers are names or objects. Every answer prints as its verdict, in a terminal and in a notebook.
"""
