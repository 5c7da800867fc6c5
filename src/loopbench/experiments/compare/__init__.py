"""A comparison of loops: `prepare` a run, `run` it, read its `results`, show them as `tables`.

`reopen`, `extend` and `rescore` go on with a run that was begun; `several_runs` sets several side by side.
"""
