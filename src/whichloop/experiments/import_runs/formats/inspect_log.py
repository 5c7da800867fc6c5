"""Logs of Inspect (UK AI Security Institute), `.eval` and `.json`, or a folder of them, as `inspect eval` writes `logs/`.

Read is format version 2, as inspect-ai 0.3 writes it. Inspect counts the calls, tokens and dollars of model-graded scorers with a
sample's own; here they are separated if the log holds events. A sample that ended in an error has no score, and Inspect's means
leave it out silently (its issue 4286): here it is errored, and visible.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest
from whichloop.protocol.redact import redact
from whichloop.protocol.values import shown_short

from .. import values
from ..foreign_file import FileTree, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..inspect_transcript import inspect_usage, items_of_sample, question_of
from ..values import count, cut, list_at, located, mapping, name_of, names_in_a_line, object_at, objects_at

HEADER, STARTED = "header.json", "_journal/start.json"
SAMPLES, SHELL = "samples/", "/sample.json"
MAX_LABEL_CHARS = 80
"""Longest arguments in an arm's name; in the place of longer ones, and of lists and objects, it has a digest of all."""
ATTACHMENT = "attachment://"
"""The prefix of a reference to a long text among the sample's attachments."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
"""A place in memory, in the name of a function that Inspect could not write down; it differs in every process."""
_WHOLE = re.compile(rf"{SAMPLES}.+_epoch_\d+\.json", re.DOTALL)
_CHUNK = re.compile(rf"({SAMPLES}.+)/(events|messages|attachments)/(\d{{1,15}})\.json", re.DOTALL)
_STOPS: Mapping[str, StopReason] = {
    **dict.fromkeys(("message", "turn"), StopReason.MAX_STEPS),
    **dict.fromkeys(("time", "working"), StopReason.TIMEOUT),
    **dict.fromkeys(("token", "cost"), StopReason.BUDGET),
    "context": StopReason.CONTEXT_OVERFLOW,
}
"""Inspect's limit → stop; a limit of another kind was set by an operator or by code."""


def recognizes(file: ForeignFile) -> bool:
    if file.suffix == ".eval":
        return True
    if file.tree is not None:
        return _is_log(file.tree) or next(_logs_in(file.tree), None) is not None
    if file.is_zip:
        return True  # one that cannot be read, which is told
    if not isinstance(file.top_level.get("eval"), dict):
        return False
    return "version" in file.top_level or not isinstance(file.json_value, list)  # rows of a table may have an object `eval`


def read_log(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a log of either kind, or a folder of logs."""
    if file.tree is not None and file.suffix != ".eval" and not _is_log(file.tree):
        return _folder(file.tree, reading)
    return _one_log(file, reading)[1]


FORMAT = Format("inspect", recognizes, read_log)


def _is_log(tree: FileTree) -> bool:
    return HEADER in tree or STARTED in tree


def _one_log(file: ForeignFile, reading: ReadingOptions) -> tuple[Mapping[str, Any], ForeignLog]:
    """Return the header of a log, and what is read from it."""
    if not file.is_zip and file.suffix != ".eval":
        return file.json_object, _log(file.json_object, objects_at(file.json_object, "samples", "a sample"), reading)
    archive = file.archive()
    if not _is_log(archive):
        raise ValueError(f"a zip file, but not a log of Inspect: it has no {HEADER}")
    header = archive.json_object(HEADER if HEADER in archive else STARTED)
    return header, _log(header, _archived_samples(archive), reading)


def _archived_samples(archive: FileTree) -> Iterator[Mapping[str, Any]]:
    """Yield samples one after the other, whole or joined from chunks, each of which is named by the index of its first item."""
    chunks: dict[str, dict[str, list[tuple[int, str]]]] = {}
    for match in filter(None, map(_CHUNK.fullmatch, archive.names)):
        chunks.setdefault(match[1], {}).setdefault(match[2], []).append((int(match[3]), match[0]))
    for name in archive.names:
        folder = name.removesuffix(SHELL)
        if _WHOLE.fullmatch(name):
            yield archive.json_object(name)
        elif name.startswith(SAMPLES) and folder != name:
            parts: dict[str, list[Any]] = {"events": [], "messages": [], "attachments": []}
            for kind, members in chunks.get(folder, {}).items():
                parts[kind] += [item for _, part in sorted(members) for item in values.list_of(archive.json(part), part)]
            about = f"{folder}/metadata.json"
            metadata = {"metadata": archive.json(about)} if about in archive else {}
            texts = {str(index): text for index, text in enumerate(parts["attachments"])}
            yield {**archive.json_object(name), **metadata, **parts, "attachments": texts}


# --- folders ---


def _logs_in(tree: FileTree) -> Iterator[str]:
    """Yield the names of the logs in a folder, beside which Inspect and its users keep other files."""
    for name in sorted(tree.names):
        if name.endswith(".eval"):
            yield name
        elif name.endswith(".json") and b'"eval"' in (raw := tree.read(name)) and b'"version"' in raw:
            top_level = ForeignFile(Path(name), BytesIO(raw)).top_level
            if isinstance(top_level.get("eval"), dict) and "version" in top_level:
                yield name


def _folder(tree: FileTree, reading: ReadingOptions) -> ForeignLog:
    """Read the logs of a folder as one: of a task that was tried again the last log, of several runs of one agent repeats."""
    logs: dict[str, tuple[str, str, ForeignLog]] = {}
    whole, repeats = ForeignLog("inspect"), Counter[tuple[str, str]]()
    for name in _logs_in(tree):
        with located(name):
            header, log = _one_log(ForeignFile(Path(name), BytesIO(tree.read(name))), reading)
        spec = object_at(header, "eval")
        run, found = str(spec.get("task_id") or name), (str(spec.get("created") or ""), name, log)
        older, logs[run] = sorted((logs.get(run, ("", "", log)), found), key=lambda one: one[:2])
        whole.notes += [f"{older[1]}: tried again in {logs[run][1]}, which counts"] if older[1] else []
    read = [log for _, _, log in logs.values()]
    is_one_task = len({log.suite for log in read}) == 1
    for log in read:
        (arm,) = log.arms.values()
        first = repeats[arm.name, log.suite]
        repeats[arm.name, log.suite] += log.repeats
        names = {task: task if is_one_task else name_of(f"{log.suite}/{task}", "a task") for task in log.questions}
        for trial in log.trials:
            whole.add(
                arm, replace(trial, task=names[trial.task], repeat=trial.repeat + first), log.questions[trial.task], log.suite
            )
        whole.questions |= {names[task]: "" for task in log.questions if names[task] not in whole.questions}
        whole.scorers |= log.scorers
        whole.by = log.by
    whole.unfinished = next((f"{name}: {log.unfinished}" for _, name, log in logs.values() if log.unfinished), "")
    whole.due_repeats = max([*(log.due_repeats for log in read), *repeats.values()], default=1)
    return whole


# --- one log ---


def _log(header: Mapping[str, Any], samples: Iterable[Mapping[str, Any]], reading: ReadingOptions) -> ForeignLog:
    spec = object_at(header, "eval")
    arm, seen = _arm(spec, object_at(header, "plan")), set[str]()
    log = ForeignLog(name_of(spec.get("task"), "eval.task"), reading)
    log.arms[arm.name] = arm
    log.questions = {name_of(item, "a sample's id"): "" for item in list_at(object_at(spec, "dataset"), "sample_ids")}
    for raw in samples:
        task = name_of(raw.get("id"), "a sample's id")
        epoch = count(raw.get("epoch"), f"sample {task}: epoch") or 1
        with located(f"sample {task}, epoch {epoch}"):
            sample = {name: _resolved(value, object_at(raw, "attachments")) for name, value in raw.items() if name != "attachments"}
            seen |= _add(log, arm, task, epoch - 1, sample)
    if len(log.scorers) > 1:
        raise ValueError(_choose(log.scorers))
    if reading.scorer is not None and seen and not log.scorers:
        raise ValueError(f"no score by {shown_short(reading.scorer)}; there are scores by {names_in_a_line(sorted(seen))}")
    log.by = f"inspect_ai {cut(str(object_at(spec, 'packages').get('inspect_ai', '')), 20)}".strip()
    log.due_repeats = count(object_at(spec, "config").get("epochs"), "epochs") or 1
    log.unfinished = "" if header.get("status") == "success" else f"the log ends with status {cut(str(header.get('status')), 20)}"
    # Where no call of a model is logged in any sample, a solver that wraps an agent of another kind sets the output itself, and
    # Inspect sees none of the requests that it makes. What calls would have taken is unknown, not 0.
    if not any(trial.lm_calls for trial in log.trials):
        log.trials = [
            one if one.lm_calls is None else replace(one, **_UNKNOWN, steps=one.steps or None, tool_calls=one.tool_calls or None)
            for one in log.trials
        ]
    return log


def _resolved(value: Any, texts: Mapping[str, Any]) -> Any:
    """Return JSON with long texts in the place of the references to them."""
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return texts.get(value.removeprefix(ATTACHMENT), value)
    if isinstance(value, list):
        return [_resolved(item, texts) for item in value]
    return {name: _resolved(item, texts) for name, item in value.items()} if isinstance(value, dict) else value


def _asked(value: Any) -> Any:
    """Return a question without what differs in each run of it."""
    if isinstance(value, list):
        return [_asked(item) for item in value]
    if isinstance(value, dict):
        return {name: _asked(item) for name, item in value.items() if item is not None and name not in ("id", "source")}
    return str(value) if isinstance(value, float) else value


def _arm(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> ForeignArm:
    """Return the arm: the solver with the arguments that were passed to it and to the task, and the model."""
    steps = objects_at(plan, "steps", "a step of the plan")
    named = "+".join(_solver_name(step.get("solver")) for step in steps)
    loop = _solver_name(name_of(spec.get("solver") or named or spec.get("task"), "eval.solver"))
    arguments = {**object_at(spec, "task_args_passed"), **object_at(spec, "solver_args_passed")}
    for number, step in enumerate(steps, 1):  # an argument has its name alone, or after the step's if another value has that
        for name, value in object_at(step, "params" if step.get("params_passed") is None else "params_passed").items():
            if name in arguments and arguments[name] != value:
                name = f"{number}.{_solver_name(step.get('solver'))}.{name}"
            arguments[name] = value
    arguments = {name: value for name, value in arguments.items() if value not in (None, [], {})}
    options = {
        cut(name, MAX_LABEL_CHARS): value if isinstance(value, bool | int | float) else cut(redact(str(value)), MAX_LABEL_CHARS)
        for name, value in arguments.items()
        if isinstance(value, str | bool | int | float)
    }
    inside = ", ".join(f"{name}={value}" for name, value in options.items())
    label = f"({inside})" if inside else ""
    if len(inside) > MAX_LABEL_CHARS or options != arguments:
        label = f"(#{digest(_ADDRESS.sub('', redact(json.dumps(arguments, sort_keys=True))))[:8]})"
    model = name_of(spec.get("model"), "eval.model")
    shown_options = {name: values.answer_of(value) for name, value in options.items()}
    return ForeignArm(name_of(f"{loop}{label}/{model}", "the arm"), loop, shown_options, model)


def _solver_name(name: Any) -> str:
    """Return a solver's name, without the package if it is Inspect's own."""
    return cut(str(name), MAX_LABEL_CHARS).removeprefix("inspect_ai/")


# --- one sample ---


def _add(log: ForeignLog, arm: ForeignArm, task: str, repeat: int, sample: Mapping[str, Any]) -> set[str]:
    """Add a sample; return its scorers. An error beside a score is the agent's own failure, and counts."""
    scores = {name: mapping(entry, f"the score {shown_short(name)}") for name, entry in object_at(sample, "scores").items()}
    scorer, result = ("", {}) if "score" in log.reading.columns else _score_of(scores, log.reading.scorer)
    log.scorers |= {scorer} - {""}
    error, invalid, limit = (object_at(sample, name) for name in ("error", "invalidation", "limit"))
    events = list(_own_events(list_at(sample, "events")))
    usage = _usage(sample, events)
    items = items_of_sample(sample, events)
    has_all = any(event.get("event") == "model" for event in events)
    extracted, turns = result.get("answer"), count(sample.get("turn_count"), "turn_count")
    replies = sum(message.get("role") == "assistant" for message in objects_at(sample, "messages", "a message")) or None
    stop = _STOPS.get(str(limit.get("type")), StopReason.TERMINATED) if limit else StopReason.FINISHED
    times = [values.number_from_zero(sample.get(name), name) for name in ("working_time", "total_time")]
    choices = sorted(map(str, list_at(sample, "choices")))  # shuffled ones are the same question
    missing = (
        error.get("message") or "an error without a message" if error else f"not scored: {result.get('reason') or 'no reason'}"
    )
    trial = log.tell(
        sample,
        arm,
        task,
        result.get("value"),
        repeat=repeat,
        is_judged=not invalid,
        unscored="excluded" if invalid else "errored",
        reason=f"invalidated: {invalid.get('reason') or 'no reason given'}" if invalid else missing,
        question=digest(_asked([sample.get("input"), choices, None if choices else sample.get("target")])),
        scores=values.other_scores({name: entry.get("value") for name, entry in scores.items() if entry is not result}),
        answer=values.answer_of(object_at(sample, "output").get("completion") if extracted is None else extracted),
        steps=turns if turns is not None else usage.get("lm_calls", replies),
        tool_calls=sum(event.get("event") == "tool" for event in events) if events else None,
        seconds=times[1] if times[0] is None else times[0],
        attempt=len(list_at(sample, "error_retries")),
        trace=ForeignTrace.of(
            items, ("wire", "provider"), question_of(sample), expected=sample.get("target"), has_all_requests=has_all
        )
        if items
        else None,
        **usage,
    )
    ended = StopReason.CRASHED if error else stop if trial.status == "scored" else None
    reason = values.reason_line(error.get("message") or "") if trial.status == "scored" else trial.reason
    log.trials[-1] = replace(trial, stop=ended, reason=reason)
    return set(scores)


def _score_of(scores: Mapping[str, Mapping[str, Any]], wanted: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return name and entry of the score that is the accuracy: the wanted one, or the only one; empty if a sample has it not.

    `wanted`: `NAME`, or `NAME/KEY` for a scorer that gives several values. Raises ValueError if it is not clear which is meant.
    """
    if wanted is None and len(scores) > 1:
        raise ValueError(_choose(scores))
    name = next(iter(scores), "") if wanted is None else wanted
    scorer, part = (name, None) if name in scores else name.rpartition("/")[::2]
    entry = scores.get(scorer, {})
    several = entry.get("value") if isinstance(entry.get("value"), Mapping) else None
    if part is None and several is not None:
        parts = names_in_a_line([f"{name}/{one}" for one in several])
        raise ValueError(f"{name} gives several values; say which is the accuracy: --scorer {parts}")
    if not entry or (part is not None and (several is None or part not in several)):
        return "", {}
    return name, entry if several is None else {**entry, "value": several[part]}


def _choose(names: Iterable[str]) -> str:
    return f"scores by {names_in_a_line(sorted(names))}; say which is the accuracy: --scorer {min(names)}"


# --- its usage ---

_UNKNOWN: Mapping[str, Any] = dict.fromkeys(("lm_calls", "input_tokens", "output_tokens", "cached_tokens", "cost_usd"))
"""The usage of a sample of which nothing is known."""


def _own_events(events: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all events except the scorers', also nested ones, which sub-agents of earlier versions have."""
    judging: set[str] = set()
    depth = 0
    """Number of open steps of scorers: versions before about 0.3.90 wrote steps instead of spans."""
    iterators = [iter(events)]
    while iterators:
        event = next(iterators[-1], None)
        if event is None:
            iterators.pop()
            continue
        event = mapping(event, "an event")
        is_scorer = event.get("type") in ("scorers", "scorer")
        if event.get("event") == "span_begin" and (is_scorer or str(event.get("parent_id")) in judging):
            judging.add(str(event.get("id")))
        elif event.get("event") == "step" and is_scorer:
            depth = max(depth + (1 if event.get("action") == "begin" else -1), 0)
        elif not depth and str(event.get("span_id")) not in judging:
            yield event
            iterators.append(iter(list_at(event, "events")))


def _usage(sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the model calls that the log holds; if it holds none, the sample's totals, which include the scorers' calls."""
    calls = [event for event in events if event.get("event") == "model" and not event.get("error") and not event.get("pending")]
    usages = [object_at(object_at(call, "output"), "usage") for call in calls]
    known: dict[str, Any] = {"lm_calls": len(calls)}
    if (not calls and not events) or (not calls and sample.get("model_usage")):
        usages, known = [mapping(usage, "model_usage") for usage in object_at(sample, "model_usage").values()], {}
        if not usages:
            return {}
    elif not all(usages):
        return known
    free = [number for number, call in enumerate(calls) if call.get("cache") == "read"]
    costs = [0.0 if n in free else values.number_from_zero(one.get("total_cost"), "total_cost") for n, one in enumerate(usages)]
    tokens = [inspect_usage(usage) for usage in usages]
    return known | {
        "input_tokens": sum(one.input for one in tokens),
        "output_tokens": sum(one.output for one in tokens),
        "cached_tokens": sum(count(usage.get("input_tokens_cache_read"), "input_tokens_cache_read") or 0 for usage in usages),
        "cost_usd": None if None in costs else math.fsum(cost for cost in costs if cost is not None),
    }
