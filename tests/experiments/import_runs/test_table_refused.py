"""Tables that are refused: what is wrong with them is told in one line, with its place."""

from __future__ import annotations

import pytest

HEAD = "arm,task,repeat,score\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the table is empty"),
        ("\n\n", "the table is empty"),
        (HEAD, "holds no trial"),
        ("arm,score\na,1\n", r"no column of the task \(task, .*\); there are arm, score; say which: --map task=COLUMN$"),
        ("a,b\na,x\n", r"no column of the task .*; no column of the score .*; .*: --map task=COLUMN,score=COLUMN$"),
        ("arm,task,score,score\n", "two columns are called 'score'; give one of them another name"),
        (HEAD + "a,x,0\n", "line 2: 3 cells, and the first line names 4 columns"),
        (HEAD + "a,x,0,1\na,x,0,0\n", "line 3: arm a, task x, repeat 0 is in line 2 already"),
        (HEAD + "a,x,1,1\na,x,,1\n", "line 3: the repeat is empty"),
        (HEAD + "a,,0,1\na,x,0,1\n", "line 2: the task is empty"),
        (HEAD + "a,x,0,1\n,x,0,1\n", "line 3: the arm is empty"),
        (HEAD + 'a,x,0,"1\n', "line 2: a row begins here whose quotes are not closed or not doubled"),
        (HEAD + 'a,x,0,1\n"a\n,x\n,y', "line 3: a row begins here whose quotes"),
        (HEAD + 'a,x,0,"1\na,y,0,"1\n', "line 2: a row begins here whose quotes"),
        (HEAD + 'a,"x\ny",0,1\na,z,0,seven\n', "line 4: the score is not a number: 'seven'; words: pass, fail, yes, no"),
        (HEAD + "a,x,0,7\n", "line 2: the score 7 is not within 0 and 1; another scale: --scale WORST,BEST$"),
        (HEAD + "a,x,0,inf\n", "line 2: the score is not a number: 'inf'"),
        ('arm,task,score,latency\na,x,1,"1,965"\n', "line 2: latency is not a number: '1,965'"),
        ("arm;task;score\na;x;0.5\na;y;0,5\n", "line 3: score is not a number: '0,5'; with decimal commas: --decimal-comma$"),
        ("arm,task,score,cost_usd\na,x,1,€0.04\n", "line 2: cost_usd is not a number: '€0.04'"),
        ("arm,task,score,duration\na,x,1,1:50\n", "line 2: duration is not a number: '1:50'"),
        ("arm,task,score,tokens\na,x,1,1.9k\n", "line 2: tokens is not a number: '1.9k'"),
        ("arm,task,score,cost\na,x,1,-3\n", "line 2: cost is negative: '-3'"),
        ("arm,task,score,status\na,x,ERROR,ok\n", "line 2: status 'ok', and there is no score"),
        ("arm,task,score,Turns\na,x,1,2.5\n", "line 2: Turns is not a whole number: '2.5'"),
        ("arm,task,score,tokens\na,x,1,1e400\n", "line 2: tokens is not a plausible number"),
        ("arm,task,score,confidence\na,x,1,1.5\n", "line 2: confidence is not within 0 and 1: '1.5'"),
        ("arm,task,score,stop\na,x,1,tired\n", "line 2: stop 'tired' is none of finished, forced.*; --map stop=$"),
        ("arm,task,score,status\na,x,1,fine\n", "line 2: status 'fine' is none of scored, ok, .*; --map error=COLUMN,status=$"),
        ("task,score,question\nx,1,why?\nx,0,who?\n", "line 3: task x: it asks something else than in another trial"),
        ("task,score,suite\nx,1,s\ny,1,t\n", "suites s, t in one table"),
        ("task,score,cluster\nx,1,s\nx,1,t\n", "task 'x' is of two clusters, 's' and 't'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(kit, text, said):
    path = kit.put(text, ".csv")
    with pytest.raises(ValueError, match=said) as caught:
        kit.imported(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"task": "x", "score": 1}\n[1]', "line 2: not a JSON object"),
        ('{"task": "x", "score": 1}\n{', "line 2: Expecting property name"),
        ('{"task": ["x"], "score": 1}', "line 1: the task is not a name"),
        (r'{"task": "x\ud83d", "score": 1}', r"line 1: the task holds half a character: 'x\\ud83d'"),
        ('{"task": "x", "score": {"a": 1}}', "line 1: the score is not a number: {'a': 1}"),
        ('{"task": "x", "score": 1, "steps": true}', "line 1: steps is not a number: True"),
        ('{"task": "x", "score": Infinity}', "line 1: the score is not a plausible number: inf"),
        ('{"task": "x", "score": 1, "steps": 1' + "0" * 400 + "}", "line 1: steps is not a plausible number"),
        ("[" * 100_000, "line 1: it is nested too deep"),
    ],
)
def test_what_is_wrong_in_json_lines_is_said_with_its_line(kit, text, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put(text, ".jsonl"))


def test_bytes_that_are_no_text_are_told_with_their_line(kit):
    with pytest.raises(ValueError, match="line 2: not UTF-8 text"):
        kit.imported(kit.put(HEAD.encode() + b"a,\xff,0,1\n", ".csv"))


def test_a_damaged_parquet_file_is_told_in_one_line(kit):
    path = kit.put(b"PAR1 and no more", ".parquet")
    with pytest.raises(ValueError, match=r"^[^:]*\.parquet: not a Parquet file \("):
        kit.imported(path)


def test_more_arms_than_anybody_compares_are_a_wrong_column(kit):
    with pytest.raises(ValueError, match="65 arms, more than 64"):
        kit.imported(kit.put("arm,task,score\n" + "\n".join(f"a{n},x,1" for n in range(65)), ".csv"))


def test_cells_are_bounded(kit):
    rows = "\n".join([*(f"a,t{n},1" for n in range(1500)), *("b,t0,1" for _ in range(1500))])
    with pytest.raises(ValueError, match="2 arms × 1500 tasks × 1500 repeats are more than"):
        kit.imported(kit.put("arm,task,score\n" + rows, ".csv"))
