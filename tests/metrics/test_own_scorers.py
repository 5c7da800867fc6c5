"""Scorers of the user's own: named, made with options, and refused by name."""

from __future__ import annotations

import pytest

from whichloop.datasets.task import Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.protocol import Query


def score(name: str) -> float:
    return scorer_named(name)(Judgement(Task("t", Query("?"), "x"), "y", "finished"))


def test_a_scorer_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "own_scorers.py").write_text(
        "def half(judgement):\n    return 0.5\n\n\ndef fixed(value):\n    return lambda judgement: value\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert [score(name) for name in ("own_scorers:half", "own_scorers:fixed(value=0.25)")] == [0.5, 0.25]
    for spec, said in (
        ("own_scorers:fixed(valeu=1)", "unexpected keyword argument 'valeu'"),
        ("own_scorers:fixed()", "missing"),
        ("own_scorers:half(judgement=1)", "not a function"),
    ):
        with pytest.raises(ValueError, match=said):
            scorer_named(spec)


def test_a_scorer_that_cannot_be_called_with_a_judgement_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "own_arity.py").write_text(
        "def two(a, b):\n    return 1.0\n\n\ndef more(a, b=1, *c):\n    return 1.0\n\n\ndef made():\n    return lambda: 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert score("own_arity:more") == 1.0
    with pytest.raises(ValueError, match=r"^scorer 'own_arity:two' takes \(a, b\); a scorer takes one argument, a Judgement"):
        scorer_named("own_arity:two")
    with pytest.raises(ValueError, match=r"takes \(\); a scorer takes one argument"):
        scorer_named("own_arity:made()")
