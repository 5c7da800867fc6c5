"""A comparison of loops: `prepare` a run, `run` it, read its `results`, show them as `tables`.

`reopen`, `extend` and `rescore` continue an existing run; `several_runs` compares several.
"""
