"""Fields of traces that name arms, though none was mapped: which one, with its values, and what to type."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, parse_map
from whichloop.experiments.import_runs.foreign_trials import ForeignTrial
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.places import TraceFields, value_at

TOLD = "tells 2 kinds of trials apart (new, old), which are pooled as one arm,"


def langsmith(number: int, variant: str, task: str) -> dict[str, Any]:
    """The root run of a trace."""
    metadata = {"variant": variant, "env": "prod", "user": f"u{number}"}
    about = {"id": f"r{number}", "trace_id": f"r{number}", "name": "agent", "run_type": "chain", "extra": {"metadata": metadata}}
    return {**about, "inputs": {"q": task}, "reference_example_id": task, "feedback_stats": {"ok": {"avg": float(number % 3 > 0)}}}


def otlp(number: int, variant: str, task: str, *, of_span: bool = False) -> dict[str, Any]:
    """A request with one trace, whose variant stands in its root span or its resource."""
    named = {"key": "deployment.variant", "value": {"stringValue": variant}}
    told = [{"key": "task", "value": {"stringValue": task}}, {"key": "grade", "value": {"doubleValue": number % 2}}]
    times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    span = {"traceId": f"{number:032x}", "spanId": "aa", "name": "run", **times, "attributes": told + [named] * of_span}
    resource = {"attributes": [] if of_span else [named]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def atif(number: int, variant: str, task: str) -> dict[str, Any]:
    agent = {"name": "careful", "version": "1.0"}
    steps = [{"step_id": 1, "source": "user", "message": task}, {"step_id": 2, "source": "agent", "message": "12"}]
    extra = {"task": task, "reward": number % 2, "variant": variant}
    return {"schema_version": "ATIF-v1.6", "session_id": f"s{number}", "agent": agent, "steps": steps, "extra": extra}


def twice(make: Any, **more: Any) -> list[dict[str, Any]]:
    """Each of six tasks with both variants."""
    return [make(number, ("old", "new")[number % 2], f"t{number // 2}", **more) for number in range(12)]


@pytest.mark.parametrize(
    ("documents", "mapped", "place"),
    [
        (twice(langsmith), "", "extra.metadata.variant"),
        (twice(otlp), "task=task,score=grade", "deployment.variant"),
        (twice(otlp, of_span=True), "task=task,score=grade", "deployment.variant"),
        (twice(otlp), "score=grade", "deployment.variant"),
        (twice(atif), "task=extra.task,score=extra.reward", "extra.variant"),
    ],
)
def test_the_field_is_named_with_its_values_and_typing_what_is_said_compares(kit, documents, mapped, place):
    lines = "\n".join(map(kit.line, documents))
    path = kit.put(lines, ".jsonl")
    columns = parse_map([mapped] if mapped else [])
    notes = read_file(path, ImportRequest(reading=ReadingOptions(columns=columns))).notes
    (note,) = [note for note in notes if "kinds of trials" in note]
    assert note.startswith(f"field '{place}' {TOLD}")
    flag, typed = shlex.split(note.rpartition(": ")[2])
    assert (flag, typed) == ("--map", f"arm={place}")
    log = read_file(path, ImportRequest(reading=ReadingOptions(columns=columns | parse_map([typed]))))
    assert sorted(arm.name for arm in log.arms) == ["new", "old"]
    assert not [note for note in log.notes if "kinds of trials" in note]
    named = read_file(path, ImportRequest(arms=["mine"], reading=ReadingOptions(columns=columns))).notes
    assert not [note for note in named if "kinds of trials" in note]


LEAVES = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.floats(), st.none(), st.lists(st.integers(), max_size=2))
KEYS = st.text("ab.", min_size=1, max_size=3)
VALUES = st.recursive(LEAVES, lambda inside: st.dictionaries(KEYS, inside, max_size=3), max_leaves=8)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_field_that_is_named_is_found_by_its_place(beside):
    values = [{**beside, "marks": {"agent": name}} for name in ("x", "y")]
    fields = TraceFields(ReadingOptions())
    for number, each in enumerate(values * 2):
        fields.add(ForeignTrial("a", f"t{number // 2}", 0), each)
    (note,) = fields.notes()
    place = note.split("'")[1]
    assert [value_at(each, place) for each in values] == ["x", "y"]


def test_scores_texts_and_counts_of_a_trace_name_no_arms():
    fields = TraceFields(ReadingOptions(columns={"score": "grade"}))
    for number, task in enumerate(["a", "a", "b", "b"]):
        beside = {
            "inputs": {"x": number % 2},
            "output.value": "yn"[number % 2],
            "grade": number % 2,
            "long": "yn"[number % 2] * 400,
        }
        fields.add(ForeignTrial("agent", task, number % 2), {**beside, "env": "prod", "span": f"s{number}", "listed": [number % 2]})
    assert list(fields.notes()) == []
