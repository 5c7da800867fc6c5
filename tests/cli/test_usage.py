"""What is wrong with the words of a command, in one line and with exit code 2, before anything is written."""

from __future__ import annotations

import pytest

MISTAKES = [
    # names
    ("compere", "No such command 'compere'"),
    ("compare --loops bare", "No such option: --loops"),
    ("compare --no-mlflow", "No such option: --no-mlflow"),
    ("compare --mlflow --no-mlflow", "No such option: --no-mlflow"),
    ("show latest --vv", "No such option: --vv"),
    ("check --frob", "No such option: --frob"),
    ("compare --loop bar", "unknown loop 'bar'; did you mean 'bare'? known: bare, finish, "),
    ("compare --suite arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'? known: "),
    ("compare --profile flaky-tool", "unknown profile 'flaky-tool', which is not a .toml file either; did you mean"),
    ("compare --model openai", "model 'openai': write provider/model"),
    ("compare --loop nowhere:Loop", "loop 'nowhere:Loop': no module named 'nowhere'"),
    ("compare --loop json:JSONDecoder", "loop json:JSONDecoder: it lacks name, stops, run and with_step_limit"),
    ("compare -s step=3", "-s step: there is no such setting; did you mean 'max_tool_steps'?"),
    ("compare -s repaets=3", "-s repaets: there is no such setting; did you mean 'repeats'?"),
    ("compare -s provider.attempt=3", "-s provider.attempt: there is no such setting"),
    ("compare --loop bare --loop bare", "--loop: 'bare' is given twice"),
    ("compare --loop bare(max_step=3)", "loop bare: unknown option 'max_step'; did you mean 'max_steps'?"),
    ("compare --loop finish --vary parse_retry=0,2", "--vary: parse_retry: loop finish has no such option; did you mean 'parse"),
    ("gate --baseline b.json --accept nonsense", "b.json: no such file; whichloop gate RUN --bless --output b.json writes one"),
    ("optimize --optimizer Nope", "unknown optimizer 'Nope'; known: BootstrapFewShot, "),
    ("list loop", "Invalid value for KIND: 'loop' is none of loops, "),
    ("list loops barr", "there is no 'barr' among the loops; did you mean 'bare'?"),
    ("report nowhere", "no run 'nowhere'; in runs: none yet"),
    ("resume nowhere", "no run 'nowhere'; in runs: none yet"),
    ("show nowhere bare", "no run 'nowhere'; in runs: none yet"),
    ("prompts nothing", "unknown loop 'nothing'"),
    ("install nothing", "unknown framework 'nothing'; known: "),
    # values
    ("compare --tasks x", "Invalid value for '--tasks'"),
    ("compare --tasks", "Option '--tasks' requires an argument"),
    ("compare --tasks 0", "--tasks: Input should be greater than or equal to 1, got 0"),
    ("compare --tasks 99999", "--tasks: 99,999 are asked for, and arithmetic has "),
    ("compare --repeats 0", "--repeats: Input should be greater than or equal to 1, got 0"),
    ("compare -s alpha=2", "-s alpha: Input should be less than 1, got '2'"),
    ("compare -s margin=5%", "-s margin: Input should be a valid number"),
    ("compare -s alpha", "Invalid value for -s: 'alpha': write NAME=VALUE"),
    ("compare --engine rai", "--engine: Input should be 'local' or 'ray', got 'rai'"),
    ("compare --budget 5apples", "--budget: '5apples' is not a budget; write calls, tokens"),
    ("compare --per-trial 0calls", "--per-trial: Input should be greater than or equal to 1, got 0.0"),
    ("compare --price cheap", "--price: "),
    ("compare --loop bare(max_steps=x)", "loop bare: max_steps: Input should be a valid integer"),
    ("compare --loop finish --vary parse_retries=0", "--vary: parse_retries: give two values or more"),
    ("compare --loop finish --vary parse_retries", "--vary: 'parse_retries': write option=value,value"),
    ("compare -s name=sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2", "-s name: it holds what looks like a secret"),
    ("compare -s traces=some", "-s traces: it must be all, failures, none or sample=N"),
    ("serve --port 99999999", "Invalid value for '--port'"),
    # files
    ("compare --config none.toml", "none.toml: no such file"),
    ("compare --suite csv --data none.csv", "none.csv: no such file"),
    ("compare --profile none.toml", "none.toml: no such file"),
    ("compare --suite q.csv", "unknown suite 'q.csv'; "),
    ("compare --program nope.py:solve", "nope.py:solve: there is no file nope.py here"),
    ("gate --baseline none.json", "none.json: no such file"),
    ("import none.csv", "none.csv: no such file"),
    # what does not go together
    ("compare --json -q -v", "Invalid value: -q and -v exclude each other"),
    ("compare --loop finish bare", "Got unexpected extra argument"),
    ("compare --vary parse_retries=0,2", "--vary: it is about the options of one loop"),
    ("compare -s provider.temperature=9", "provider is for real models; name one, such as openai/gpt-4o-mini"),
    ("compare -s user=nobody", "user is for runs whose models are all real; where the model"),
    ("compare -s cassette_mode=replay", "cassette_mode 'replay' needs cassette, the folder of a recording"),
    ("compare --budget 5calls -s budget.calls=3", "Invalid value for -s: 'budget.calls=3': write NAME=VALUE"),
    ("compare -s base_url=http://x", "base_url is for real models"),
    ("gate", "Invalid value for --baseline: name the baseline's file"),
    ("gate --bless", "Invalid value for --bless: name the file of the new baseline"),
    ("resume latest --rescore --retry errors", "no run 'latest'; in runs: none yet"),
    ("init there --loop my_loop", "there is not a directory"),
]


@pytest.mark.parametrize(("typed", "said"), MISTAKES)
def test_a_mistake_is_one_line_that_names_what_is_wrong(whichloop, here, typed, said):
    ended = whichloop(*typed.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {said}")
    assert ended.err.count("\n") == 1
    assert "Value error" not in ended.err
    assert list(here.iterdir()) == []
