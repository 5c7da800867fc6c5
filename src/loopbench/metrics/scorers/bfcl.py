"""1 iff the calls in the end state are those expected (`loopbench.metrics.calls`) and an answer was given, whatever it says."""

from __future__ import annotations

from loopbench.protocol import render_value

from ..abstention import is_abstention
from ..calls import same_calls
from ..judgement import Judgement, Scorer

READS_STATE = True


def bfcl() -> Scorer:
    return _score


def _score(judgement: Judgement) -> float:
    expected, answer = judgement.task.expected, judgement.answer
    if expected is None:
        return float(is_abstention(answer))
    return float(answer is not None and render_value(answer).strip() != "" and same_calls(expected, judgement.state))


SCORER = bfcl
