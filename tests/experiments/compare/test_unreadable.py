"""Loops whose replies a real model did not write in the form that they ask for: the answer says so, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare


@pytest.fixture(scope="session")
def refused(record) -> Callable[..., Comparison]:
    """Compares two loops of a model, of which the first one's replies are refused in so many of its four calls a trial."""

    def make(count: int, model: str = "openai/m", calls_in: str = "text") -> Comparison:
        infos = [
            ArmInfo(f"bare/{model}", "bare", {"max_steps": 8}, model, "clean", "s", calls_in),
            ArmInfo(f"finish/{model}", "finish", {}, model, "clean", "s", "native"),
        ]
        records = [
            record(
                arm=info.arm,
                task=f"t{task}",
                scores={"accuracy": float(info.loop == "finish")},
                calls={"decide": 4},
                errors={"wire": count} if info.loop == "bare" and count else {},
            )
            for info in infos
            for task in range(10)
        ]
        return compare(records, infos)

    return make


def test_replies_that_could_not_be_read_are_explained_with_what_to_do(refused):
    first = answer(refused(4)).answer_sentences[0]
    assert first.is_basis
    assert first.text.startswith("Replies that could not be read: bare/openai/m 40 of 40: the model does not write calls")
    assert first.text.endswith("; --loop 'bare(decision_format=native, max_steps=8)' asks for native calls")
    assert first.brief.startswith("Replies that could not be read: bare/openai/m 40 of 40; --loop")


@pytest.mark.parametrize(("count", "model"), [(0, "openai/m"), (3, "openai/m"), (4, "scripted")])
def test_nothing_is_said_where_replies_could_be_read_or_faults_spoiled_them(refused, count, model):
    assert not any("could not be read" in line for line in answer(refused(count, model)).sentences)
