"""Chat messages in the rows of a table: what happened in their trials."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest
from whichloop.experiments.import_runs.formats.table import read_messages
from whichloop.experiments.import_runs.importing import read_file
from whichloop.metrics.trace import ToolRun
from whichloop.runs.store.trials import read_trace

ASKED = {"role": "user", "content": "What does item 10 cost?"}
SAID = {"role": "assistant", "content": "12"}
words = st.text("abc {:", max_size=6)


def called(number, arguments='{"item": 10}'):
    call = {"id": f"c{number}", "type": "function", "function": {"name": "price", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def gave(number, content, **more):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content, **more}


def row(task, *messages, **more):
    return {"agent": "careful", "task_id": task, "trial": 0, "messages": [ASKED, *messages], "success": True} | more


def lines(*rows):
    return "\n".join(map(json.dumps, rows))


@given(st.lists(words, max_size=4), words)
@settings(max_examples=cases(8))
def test_every_call_and_reply_of_the_messages_is_counted(kit, results, answer):
    """The law: a reply for each of the agent's messages, a run for each result, and the last text is the answer."""
    turns = [item for number, text in enumerate(results) for item in (called(number), gave(number, text))]
    found = kit.imported(kit.put(lines(row("x", *turns, {"role": "assistant", "content": answer})), ".jsonl"))
    (record,) = found.records
    assert (record.steps, record.lm_calls, record.tool_calls) == (len(results) + 1, len(results) + 1, len(results))
    assert (record.answer, record.stop) == ((answer, "finished") if answer else (None, None))
    ran = [event.data for event in read_trace(found.folder, record).events if isinstance(event, ToolRun)]
    assert ran == results


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
def test_messages_of_another_name_are_read_where_they_are_mapped(kit, suffix):
    named = [{("turns_of_it" if name == "messages" else name): cell for name, cell in row("x", SAID).items()}]
    csv = 'agent,task_id,success,turns_of_it\ncareful,x,1,"' + json.dumps([ASKED, SAID]).replace('"', '""') + '"\n'
    content = {".jsonl": lines(*named), ".json": named, ".csv": csv}[suffix]
    assert kit.imported(kit.put(content, suffix)).records[0].trace_at == 0
    found = kit.imported(kit.put(content, suffix), columns={"messages": "turns_of_it"})
    (record,) = found.records
    assert (record.answer, read_trace(found.folder, record).head.query) == ("12", ASKED["content"])


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("Error: no", "Error"),
        ("KeyError: 'x'", "KeyError"),
        ("requests.exceptions.ConnectionError: late", "ConnectionError"),
        ("Traceback (most recent call last):\n…", "Error"),
        ('{"error": "no"}', "Error"),
        ('{"error": null, "price": 3}', None),
        ("The error: none", None),
        ("12", None),
    ],
)
def test_results_that_name_an_error_are_those_of_failed_calls(result, kind):
    read = read_messages([ASKED, called(1), gave(1, result), SAID])
    assert read is not None
    (ran,) = [event for event in read[0].events if isinstance(event, ToolRun)]
    assert (ran.status, ran.error_type) == (("error", kind) if kind else ("untold", None))


ODD = [
    ([ASKED, SAID, {"role": "critic", "content": "no"}], "message 3: role is 'critic', not system, user, assistant or tool"),
    ("see the log", "the cell is a text that is no JSON array"),
    ([ASKED, {"role": "assistant", "content": 3}], "message 2: content is neither a text nor a list of parts: 3"),
    ({"role": "user"}, "the cell is not a list: "),
]


@pytest.mark.parametrize("as_text", [True, False])
@given(st.lists(st.sampled_from(range(len(ODD))), min_size=1, max_size=4))
@settings(max_examples=cases(8))
def test_the_trials_whose_cells_are_no_messages_are_told_with_their_reasons_and_all_others_have_traces(kit, as_text, odd):
    whole = [row(f"t{number}", SAID) for number in range(len(odd))]
    broken = [row(f"odd{number}") | {"messages": ODD[kind][0]} for number, kind in enumerate(odd)]
    rows = [*whole, *broken]
    if as_text:
        rows = [one | {"messages": cell if isinstance(cell := one["messages"], str) else json.dumps(cell)} for one in rows]
    log = read_file(kit.put(lines(*rows), ".jsonl"), ImportRequest())
    assert [trial.trace is not None for trial in log.trials] == [True] * len(whole) + [False] * len(broken)
    first = f"line {len(whole) + 1}: {ODD[odd[0]][1]}"
    assert log.notes[0].startswith(f"column 'messages': cells that are no messages: {len(odd)}, such as {first}")


def test_messages_as_exports_of_spreadsheets_and_databases_write_them_are_read(kit):
    rows = [("x", [ASKED, SAID]), ("y", [ASKED, called(1), gave(1, "12"), SAID])]
    text = "".join(f'careful,{task},1,"{json.dumps(told).replace(chr(34), chr(34) * 2)}"\n' for task, told in rows)
    log = read_file(kit.put(f"agent,task,success,messages\n{text}", ".csv"), ImportRequest())
    assert [trial.answer for trial in log.trials] == ["12", "12"]
    assert all(trial.trace is not None for trial in log.trials)
    assert log.notes == []


def test_usage_tells_the_tokens_where_no_column_does(kit):
    used = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 9000}
    (record,) = kit.imported(kit.put(lines(row("x", SAID, usage=used)), ".jsonl")).records
    assert (record.input_tokens, record.output_tokens) == (1000, 8000)
    (record,) = kit.imported(kit.put(lines(row("x", SAID, usage=used, tokens=7)), ".jsonl")).records
    assert record.input_tokens + record.output_tokens == 7
