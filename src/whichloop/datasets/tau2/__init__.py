"""Importer of tau2-bench's tasks (Barres et al. 2025, arXiv:2506.07982) as published: tickets to solve over a database.

Complete are the domains `mock`, `telecom`, `retail` and `airline`. A folder holds `tasks.json`, `db.json`, a policy
(`policy_solo.md`, else `policy.md`) and perhaps `split_tasks.json`; of `telecom` what its module names. Of `mock` and `telecom` the
tasks that need no simulated user are run, tau2's solo mode: the ticket is the question, the policy its context, and the agent has
the customer's tools beside its own. Quarantined, with the reason, are those that continue a conversation, that have no ticket, or
in which the user of `mock` has tools. In `retail` and `airline` a scripted user answers: see `customer`. Another domain whose
tasks have no tickets is refused.

The plan is the task's `actions`. Scored is what the task's `reward_basis` names, all of it at once:

- DB: the database in the end equals a fresh one after the gold actions. ENV_ASSERTION: the task's assertions hold of it.
  ACTION: each gold action was called, its `compare_args` alike. The three are the environment's end state.
- COMMUNICATE: each text of `communicate_info` stands in the answer (scorer `contains`).
- NL_ASSERTION needs a judge and is not scored: the label `not_scored` says so of a task that has any. A task with nothing else to
  score is quarantined.
"""

from .importer import INSTRUCTION, VERSION, load

SUITE = load

__all__ = ["INSTRUCTION", "SUITE", "VERSION", "load"]
