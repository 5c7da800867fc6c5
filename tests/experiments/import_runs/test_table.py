"""Tables of trials: CSV, TSV, JSON lines."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop import load
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, ScoreScale, import_files, parse_map
from whichloop.experiments.import_runs.columns import COLUMNS
from whichloop.experiments.import_runs.foreign_trials import ONLY_OURS
from whichloop.metrics.summary import METRICS

HEAD = "arm,task,repeat,score\n"

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Z")), min_size=1, max_size=8).filter(
    lambda name: name.lower() not in ("nan", "na", "n/a", "null", "none")
)
amounts = st.one_of(st.none(), st.integers(0, 10**6))
trials = st.lists(
    st.fixed_dictionaries(
        {
            "arm": st.sampled_from(["a", "b", "c d"]),
            "task": names,
            "score": st.one_of(st.none(), st.sampled_from([0, 1, 0.25])),
            "steps": amounts,
            "tokens": amounts,
            "cost_usd": st.one_of(st.none(), st.floats(0, 1000).map(lambda value: round(value, 6))),
        }
    ),
    min_size=1,
    max_size=12,
)


def as_csv(rows, delimiter=",", encoding="utf-8"):
    file = io.StringIO()
    made = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_MINIMAL)
    made.writeheader()
    made.writerows(rows)
    return file.getvalue().encode(encoding)


def only(found):
    (record,) = found.records
    return record


NESTED = [
    {"meta": {"agent": agent, "q": task}, "eval": {"score": right, "by": [{"name": "judge"}]}, "note": "x"}
    for agent in ("one", "two")
    for task, right in (("t1", 1.0), ("t2", None))
]
INSIDE = {"arm": "meta.agent", "task": "meta.q", "score": "eval.score"}


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_points_lead_into_the_objects_of_rows(kit, tmp_path, suffix):
    path = kit.put("\n".join(map(json.dumps, NESTED)) if suffix == ".jsonl" else NESTED, suffix)
    records = kit.imported(path, columns=INSIDE, cluster="eval.by.0.name").records
    records = sorted(records, key=lambda record: (record.task, record.arm))
    assert [(record.arm, record.task, record.status, record.cluster) for record in records] == [
        ("one", "t1", "scored", "judge"),
        ("two", "t1", "scored", "judge"),
        ("one", "t2", "errored", "judge"),
        ("two", "t2", "errored", "judge"),
    ]
    notes = import_files([path], ImportRequest(reading=ReadingOptions(columns=INSIDE)), tmp_path / "run").notes
    assert notes == (f"{path}: columns left out: note",)
    with pytest.raises(ValueError, match=r"--map arm: nothing stands at 'meta.agnt'; did you mean 'meta.agent'\?"):
        kit.imported(path, columns=INSIDE | {"arm": "meta.agnt"})


@given(
    st.integers(0, 10**6),
    st.sampled_from(
        [("Wall (ms)", 1000), ("latency_ms", 1000), ("took [minutes]", 1 / 60), ("seconds", 1), ("Wall (s)", 1), ("ms waited", 1)]
    ),
)
def test_a_unit_that_ends_the_name_of_a_column_is_converted(kit, number, named):
    name, per_second = named
    path = kit.put(as_csv([{"task": "t", "score": 1, name: number}]), ".csv")
    assert only(kit.imported(path, columns={"seconds": name})).seconds == pytest.approx(number / per_second)


@pytest.mark.parametrize(
    ("name", "usd", "note"),
    [
        ("cost (cents)", 0.03, "column 'cost (cents)' is read as cents and kept as US dollars"),
        ("Cost (EUR)", 3.0, "column 'Cost (EUR)' is taken as US dollars, though its name says eur: convert it first"),
        ("Cost ($)", 3.0, None),
    ],
)
def test_the_unit_of_a_cost_is_told(kit, tmp_path, name, usd, note):
    path = kit.put(as_csv([{"task": "t", "score": 1, name: 3}]), ".csv")
    assert only(kit.imported(path, columns={"cost_usd": name})).cost_usd == usd
    made = import_files([path], ImportRequest(reading=ReadingOptions(columns={"cost_usd": name})), tmp_path / "run")
    said = [*made.notes, *made.readings[1:]]
    assert said == ([] if note is None else [f"{path}: {note}"])


@pytest.mark.parametrize(("told", "other"), [("input", "output"), ("output", "input")])
def test_a_count_of_one_kind_of_tokens_is_kept_and_the_total_is_unknown(tmp_path, told, other):
    path = tmp_path / "half.csv"
    path.write_text(f"agent,task,score,{told}_tokens,{other}_tokens\na,1,1,500,\nb,1,0,900,\na,2,1,7,5\nb,2,0,8,6\n")
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert made.notes == (f"2 trials have a count of {told} tokens and none of {other} tokens: their total is unknown",)
    found = load(made.folder).trials.sort_values(["task", "arm"])
    assert found[f"{told}_tokens"].tolist() == [500, 900, 7, 8]
    assert found[f"{other}_tokens"].isna().tolist() == found["tokens"].isna().tolist() == [True, True, False, False]


@settings(max_examples=cases(12))
@given(trials, st.sampled_from([",", "\t", ";"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_every_row_is_a_record_and_says_what_the_row_says(kit, rows, delimiter, encoding):
    found = kit.imported(kit.put(as_csv(rows, delimiter, encoding), ".csv"))
    lines = kit.imported(kit.put("\n".join(json.dumps(row) for row in rows), ".jsonl"))
    assert lines.digest == found.digest
    assert [record.cost_usd for record in lines.records] == [record.cost_usd for record in found.records]
    counted: dict[tuple[str, str], int] = {}
    records = {record.key: record for record in found.records}
    for row in rows:
        cell = (row["arm"], row["task"])
        record = records[*cell, counted.setdefault(cell, 0)]
        counted[cell] += 1
        assert record.status == ("errored" if row["score"] is None else "scored")
        for metric in ("steps", "tokens", "cost_usd"):
            assert METRICS[metric](record) == row[metric]
        if row["score"] is not None:
            assert record.accuracy == row["score"]
    assert sum(record.status == "excluded" for record in records.values()) == len(records) - len(rows)


@settings(max_examples=cases(12))
@given(st.permutations(["a,x,0,1", "a,x,1,0", "a,y,0,0", "a,y,1,1", "b,x,0,1", "b,x,1,1", "b,y,0,0", "b,y,1,0"]))
def test_the_order_of_rows_means_nothing(kit, rows):
    ordered = kit.imported(kit.put(HEAD + "\n".join(sorted(rows)), ".csv"))
    assert kit.imported(kit.put(HEAD + "\n".join(rows), ".csv")).digest == ordered.digest


@pytest.mark.parametrize("values", [("0", "1"), ("1", "2"), ("1.0", "2.0"), ("9", "10"), ("42", "1337"), ("first", "second")])
def test_repeats_are_told_apart_whatever_they_are_called(kit, values):
    rows = [f"{arm},{task},{value},{score}" for arm in "ab" for task in "xy" for value, score in zip(values, "01", strict=True)]
    found = kit.imported(kit.put(HEAD + "\n".join(rows), ".csv"))
    assert {(record.repeat, record.accuracy) for record in found.records} == {(0, 0.0), (1, 1.0)}
    assert found.manifest.settings.repeats == 2


def test_repeats_that_are_numbered_through_count_within_their_task(kit):
    found = kit.imported(kit.put(HEAD + "a,x,1,1\na,x,2,0\na,y,3,1\na,y,4,0\n", ".csv"))
    assert [(record.task, record.repeat, record.accuracy) for record in found.records] == [
        ("x", 0, 1.0),
        ("x", 1, 0.0),
        ("y", 0, 1.0),
        ("y", 1, 0.0),
    ]


@pytest.mark.parametrize(
    ("meaning", "words"),
    [
        *((meaning, COLUMNS[meaning]) for meaning in ("task", "score")),
        *((meaning, tuple(words)[-1:]) for meaning, words in COLUMNS.items() if meaning not in ("task", "score")),
        *(
            pytest.param(meaning, tuple(words)[:-1], marks=pytest.mark.slow)
            for meaning, words in COLUMNS.items()
            if meaning not in ("task", "score") and len(words) > 1
        ),
    ],
)
def test_synonyms_in_any_case_are_understood(kit, meaning, words):
    for word in words:
        name = word.replace("_", " ").upper()
        rest = [one for one in ("task", "score") if one != meaning]
        cells = {"stop": "finished", "status": "ok", "repeat": "3"}
        text = f"{name},{','.join(rest)}\n{cells.get(meaning, '1')}" + ",1" * len(rest)
        assert only(kit.imported(kit.put(text, ".csv"))).accuracy == 1, name


def test_columns_are_mapped(kit):
    text = "trial,agent,who,state,used,success,score\nq1,x,a,success,7,yes,9\nq2,x,a,odd,8,no,8\n"
    path = kit.put(text, ".csv")
    columns = parse_map(["task=trial,arm=who", "tokens=used,status=,score=Success"])
    found = kit.imported(path, columns=columns)
    assert [(r.arm, r.task, r.repeat, r.input_tokens, r.accuracy) for r in found.records] == [
        ("a", "q1", 0, 7, 1),
        ("a", "q2", 0, 8, 0),
    ]
    with pytest.raises(ValueError, match=r"line 3: status 'odd' is none of .*; to leave the column out: --map status="):
        kit.imported(path, columns={**columns, "status": "state"})
    with pytest.raises(ValueError, match=r"--map task: no column 'nowhere'; there are trial, agent"):
        kit.imported(path, columns={"task": "nowhere"})
    with pytest.raises(ValueError, match=r"--map arm: column 'trial' is mapped twice"):
        kit.imported(path, columns={"task": "trial", "arm": "trial"})
    with pytest.raises(ValueError, match=r"--scorer and --map score=… both name the column of the score; give one of them"):
        kit.imported(path, columns=columns, scorer="score")
    with pytest.raises(ValueError, match=r"--map names columns of a table or places in a document; inspect has neither"):
        kit.imported(kit.put(kit.log(kit.sample(1))), columns=columns)


@given(st.dictionaries(st.sampled_from(sorted(COLUMNS)), st.text("ab ,=", max_size=5).map(str.strip), min_size=1))
def test_a_map_is_read_as_it_is_written(columns):
    file = io.StringIO()
    csv.writer(file).writerow([f"{meaning}={column}" for meaning, column in columns.items()])
    assert parse_map([file.getvalue()]) == columns


@pytest.mark.parametrize("text", ["task", "tasks=a", "=a", "task=a,task=b", "task=a,,"])
def test_a_map_that_is_none_is_refused_with_its_name(text):
    with pytest.raises(ValueError, match="--map "):
        parse_map([text])


@pytest.mark.parametrize("word", ["ok", "Success", "succeeded", "complete", "completed", "done", "scored"])
def test_a_status_of_success_is_read(kit, word):
    assert only(kit.imported(kit.put(f"task,score,status\nt,0,{word}\n", ".csv"))).status == "scored"


def test_trials_without_a_score_are_counted_by_reason(kit, tmp_path):
    path = kit.put("arm,task,score,reason\na,x,1,\na,y,,slow\na,z,,slow\nb,x,,\nb,y,1,\n", ".csv")
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert made.left_out == {"errored: slow": 2, "errored: the score is blank": 1, f"excluded: not in {path.name}": 1}
    assert (made.trials, made.share_left_out) == (6, 4 / 6)


def test_a_row_can_say_everything(kit):
    row = {
        "arm": "a",
        "task": "t",
        "score": "P",
        "status": "scored",
        "stop": "max_steps",
        "reason": "why",
        "steps": 3,
        "lm_calls": 4,
        "tool_calls": 2,
        "input_tokens": 100,
        "output_tokens": 7,
        "cost": 0.5,
        "seconds": 1.5,
        "confidence": 0.9,
        "cluster": "k",
        "model": "gpt",
        "answer": "42",
        "suite": "sums",
        "extra": "left out",
    }
    found = kit.imported(kit.put(as_csv([row]), ".csv"))
    record = only(found)
    assert (record.accuracy, record.stop, record.reason, record.answer) == (0.5, "max_steps", "why", "42")
    assert (record.steps, record.lm_calls, record.tool_calls, record.tokens, record.input_tokens) == (3, 4, 2, 107, 100)
    assert (record.cost_usd, record.seconds, record.confidence, record.cluster, record.suite) == (0.5, 1.5, 0.9, "k", "sums")
    assert found.comparison.arms[0].info.model == "gpt"
    assert set(record.unknown) == {"cached_tokens", "repeated_calls", *ONLY_OURS}


def test_a_table_without_arms_is_one(kit):
    path = kit.put("task,score\nx,1\n", ".csv")
    assert only(kit.imported(path)).arm == path.stem
    assert only(kit.imported(kit.put("model,task,score\ngpt,x,1\n", ".csv"))).arm == "gpt"


def test_the_score_and_the_cluster_may_be_any_column(kit):
    path = kit.put("task,score,Stars,Kind\nx,1,3,k\n", ".csv")
    assert only(kit.imported(path)).accuracy == 1
    record = only(kit.imported(path, scorer="stars", cluster="kind", scale=ScoreScale(1, 5)))
    assert (record.accuracy, record.cluster) == (0.5, "k")


def test_which_of_two_scores_is_the_accuracy_is_not_guessed(kit):
    path = kit.put("task,reward,Success\nx,0.3,1\n", ".csv")
    with pytest.raises(ValueError, match=r"columns Success, reward; say which is the accuracy: --scorer Success$"):
        kit.imported(path)
    assert only(kit.imported(path, scorer="reward")).accuracy == 0.3


def test_a_row_that_does_not_repeat_the_question_asks_the_same(kit):
    rows = "arm,task,score,question\na,x,1,\na,y,1,who?\nb,x,1,why?\nb,y,1,\n"
    told = rows.replace("x,1,\n", "x,1,why?\n")
    found, whole, other = (
        kit.imported(kit.put(text, ".csv")).manifest.suite.digest for text in (rows, told, rows.replace("why?", "how?"))
    )
    assert found == whole != other


def test_errored_rows_say_why(kit):
    rows = "arm,task,status,score,reason\na,v,,1,\na,w,,,\na,x,error,1,timed out\na,y,excluded,,bad task\na,z,,,no key\n"
    path = kit.put(rows, ".csv")
    found = {record.task: (record.status, record.reason, record.accuracy) for record in kit.imported(path).records}
    assert found == {
        "v": ("scored", "", 1.0),
        "w": ("errored", "the score is blank", 0.0),
        "x": ("errored", "timed out", 0.0),
        "y": ("excluded", "bad task", 0.0),
        "z": ("errored", "no key", 0.0),
    }
    counted = {record.task: record.status for record in kit.imported(path, errors_as_failures=True).records}
    assert counted == {"v": "scored", "w": "errored", "x": "scored", "y": "excluded", "z": "errored"}


@pytest.mark.parametrize("name", ["error", "Error message", "exception"])
def test_the_text_of_an_error_says_that_it_ended_the_trial(kit, name):
    path = kit.put(f"arm,task,score,{name}\na,v,1,\na,w,,429 from upstream\na,x,,\na,y,0,recovered\n", ".csv")
    plain = {record.task: (record.status, record.stop) for record in kit.imported(path).records}
    assert plain == {"v": ("scored", None), "w": ("errored", "crashed"), "x": ("errored", None), "y": ("scored", None)}
    counted = {record.task: (record.status, record.accuracy) for record in kit.imported(path, errors_as_failures=True).records}
    assert counted == {"v": ("scored", 1.0), "w": ("scored", 0.0), "x": ("errored", 0.0), "y": ("scored", 0.0)}


@settings(max_examples=cases(12))
@given(trials)
def test_a_json_array_is_the_table_of_its_rows(kit, rows):
    lines = kit.imported(kit.put("\n".join(json.dumps(row) for row in rows), ".jsonl"))
    assert kit.imported(kit.put(rows)).digest == lines.digest


@pytest.mark.parametrize("beside", [{"output": "4"}, {"results": 1}, {"answer": {"a": [1]}}, {"info": {}}])
def test_a_json_array_of_trials_is_a_table_whatever_its_columns(kit, beside):
    found = kit.imported(kit.put([{"task": "x", "score": 1, **beside}, {"task": "y", "score": 0, **beside}]))
    assert [record.accuracy for record in found.records] == [1, 0]


def test_the_index_that_pandas_writes_without_a_name_is_left_out_silently(kit, tmp_path):
    path = kit.put(",task,score\n0,x,1\n1,y,0\n", ".csv")
    assert import_files([path], ImportRequest(), tmp_path / "run").notes == ()
