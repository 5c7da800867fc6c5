"""Logs of Inspect without the calls of a model: unknown where none has any, none where others have some."""

from __future__ import annotations

BEGAN = {"event": "info", "data": "began"}
ASKED = {"event": "model", "output": {"usage": {"input_tokens": 7, "output_tokens": 2}}}


def test_a_solver_whose_calls_are_not_logged_is_an_agent_whose_calls_are_unknown(kit):
    """It wraps an agent of another kind and sets the output itself, so that nothing but other events is in the log."""
    (arm,) = kit.imported(kit.put(kit.log(*(kit.sample(number, events=[BEGAN]) for number in range(3))))).comparison.arms
    assert arm.summary.dead == ""
    assert [arm.summary.means[name] for name in ("steps", "lm_calls", "tokens", "cost_usd")] == [None] * 4


def test_a_sample_without_calls_beside_others_with_calls_asked_nothing(kit):
    records = kit.imported(kit.put(kit.log(kit.sample(1, events=[BEGAN]), kit.sample(2, events=[ASKED])))).records
    assert sorted((record.task, record.lm_calls, "lm_calls" in record.unknown) for record in records) == [
        ("1", 0, False),
        ("2", 1, False),
    ]
