"""What follows from a comparison: its matrix, which loop to adopt, what is undecided, what is worse, and what costs say.

Begin with `answer.py`, which puts an answer together from

- the matrix: `matrix.py` (loops × suites and profiles), `parts.py` and `same_loops.py` (what is judged by itself, or as one);
- the verdict on all profiles: `verdicts.py`, with `evidence.py` (what shows it), `thrift.py` (a cheaper loop within the margin),
  `over_all.py` (all profiles as one), `undecided.py` and `deciding.py` (the run that would decide), `prices.py` and `ties.py`
  (what loops cost, and what tells equal ones apart);
- verdicts on profiles by themselves: `measured_forms.py`, `each_profile.py`, `over_estimates.py`, `basis.py`;
- a few tasks with repeats: `few_tasks_table.py`, `few_tasks_claims.py`, `few_tasks_repeats.py`, `few_tasks_verdict.py`;
- sentences beside the verdict: `trial_limits.py` and `tighter.py` (limits), `claims.py` (wrong answers given as done),
  `exposure.py` (instructions in results), `unreadable.py` and `fences.py` (replies), `misleading_plans.py`,
  `framework_defaults.py`, `clustered.py`, `paired.py`, `best_against_others.py`, `air.py` (what profiles are called), and
  `warned.py` (warnings).

`sentence.py` is one sentence in full and in brief; `answer_json.py` writes the answer as JSON.
"""
