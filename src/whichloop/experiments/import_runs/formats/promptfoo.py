"""Results of promptfoo, as `promptfoo eval -o results.json` and `promptfoo export eval` write them: a row per prompt and test.

A provider is an arm, with the prompt's label where there are several prompts. A row says by `failureReason` whether an assertion
failed, which is a wrong answer, or the request did (2), which is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest
from whichloop.protocol.values import shown_short

from ..foreign_file import ForeignFile, documents, holds
from ..foreign_trials import ForeignArm, ForeignLog, Format, ReadingOptions
from ..values import (
    answer_of,
    cut,
    located,
    mapping,
    name_of,
    number_from_zero,
    object_at,
    other_scores,
    usage_in,
    value_at,
    without_floats,
)

SUCCESS = "success"
FAILED_REQUEST = 2
_ROW = {SUCCESS, "provider", "prompt"}
MAX_LABEL = 80
_USAGE = (("prompt",), ("completion",), ("total",))


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read results."""
    log = ForeignLog("promptfoo", reading)
    rows = [mapping(row, "a row") for _, data in documents(file) for row in _rows(data)]
    several = len({_label(row) for row in rows}) > 1
    for number, (row, task) in enumerate(zip(rows, _task_names(rows), strict=True), 1):
        with located(f"row {number}"):
            _add(log, row, task, _label(row) if several else "")
    log.scorers.add(reading.scorer or SUCCESS)
    return log


def _rows(data: Any) -> list[Any]:
    """Return the rows of a file of results, or of a line of `results.jsonl`, which is one."""
    rows = value_at(data, "results.results")
    return rows if isinstance(rows, list) else [data]


FORMAT = Format("promptfoo", lambda file: holds(_rows(file.first), _ROW), read)


def _label(row: Mapping[str, Any]) -> str:
    prompt = object_at(row, "prompt")
    return cut(" ".join(str(prompt.get("label") or prompt.get("raw") or "").split()), MAX_LABEL)


def _asked(row: Mapping[str, Any]) -> str:
    """Return a digest of what a test asks: its variables and its assertions."""
    case = object_at(row, "testCase")
    return digest(without_floats([row.get("vars", case.get("vars")), case.get("assert")]))


def _task_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the task of each row: what describes its test alone, or else the test's number. Repeats of a test are one task."""
    tests: dict[str, str] = {}
    described: dict[str, set[str]] = {}
    for row in rows:
        text = " ".join(str(object_at(row, "testCase").get("description") or row.get("description") or "").split())
        described.setdefault(cut(text, MAX_LABEL), set()).add(_asked(row))
        tests.setdefault(_asked(row), str(row.get("testIdx", len(tests))))
    alone = {next(iter(asked)): text for text, asked in described.items() if text and len(asked) == 1}
    return [alone.get(_asked(row), tests[_asked(row)]) for row in rows]


def _add(log: ForeignLog, row: Mapping[str, Any], task: str, prompt: str) -> None:
    provider, response = row.get("provider"), object_at(row, "response")
    told = provider if isinstance(provider, Mapping) else {"id": provider}
    model = name_of(told.get("label") or told.get("id") or "unknown", "provider.id")
    arm = f"{model} {prompt}".strip()
    scores = {SUCCESS: row.get(SUCCESS), "score": row.get("score"), **object_at(row, "namedScores")}
    scorer = log.reading.scorer or SUCCESS
    if scorer not in scores:
        raise ValueError(f"no score {shown_short(scorer)}; there are {', '.join(scores)}")
    failed = row.get("failureReason", FAILED_REQUEST if response.get("error") else 0) == FAILED_REQUEST
    usage = None if failed else usage_in(object_at(row, "tokenUsage") or object_at(response, "tokenUsage"), _USAGE)
    latency = number_from_zero(row.get("latencyMs"), "latencyMs")
    log.tell(
        row,
        ForeignArm(arm, loop=arm if prompt else "", model=model),
        task,
        scores.get(scorer),
        is_judged=not failed,
        reason=row.get("error") or "no score",
        question=_asked(row),
        scores=other_scores({name: one for name, one in scores.items() if name != scorer}),
        stop=StopReason.CRASHED if failed else StopReason.FINISHED,
        answer=answer_of(response.get("output")),
        input_tokens=usage and usage.input,
        output_tokens=usage and usage.output,
        cost_usd=number_from_zero(row.get("cost"), "cost"),
        seconds=latency and latency / 1000,
    )
