"""What is wrong with the words of a command, in one line of at most two on a terminal, without a word of the validators'."""

from __future__ import annotations

import pytest

WIDTH = 80

MISTAKES = [
    ("compare --loops bare", "no option --loops; did you mean '--loop'? see whichloop compare --help"),
    ("show latest --vv", "no option --vv; did you mean '-v'? see whichloop show --help"),
    ("plan check", "FILE is missing: tasks with plans; see whichloop plan check --help"),
    (
        "compare --limit-tokens 5",
        "no option --limit-tokens; did you mean '--max-tokens' or '--context-tokens' or '--budget-tokens' or "
        "'--trial-budget-tokens'? see whichloop compare --help",
    ),
    ("compare --lop=bare", "no option --lop; did you mean '--loop'? see whichloop compare --help"),
    ("compare bare", "unexpected 'bare': each value stands behind its option, such as --loop bare; see whichloop compare --help"),
    ("compare --tasks x", "--tasks: a whole number is needed, got 'x'; see whichloop compare --help"),
    ("compare --tasks=1.5", "--tasks: a whole number is needed, got '1.5'; see whichloop compare --help"),
    ("compare --tasks", "--tasks needs a value: maximum number of tasks; see whichloop compare --help"),
    ("compare --tasks 0", "--tasks: 1 or more is needed, got 0"),
    ("compare --alpha 2", "--alpha: less than 1 is needed, got 2.0"),
    ("compare --margin 5%", "--margin: a number is needed, got '5%'; see whichloop compare --help"),
    ("compare --engine rai", "--engine: 'local' or 'ray' is needed, got 'rai'"),
    ("compare --temperature 9", "--temperature is for real models; name one, such as openai/gpt-4o-mini"),
    (
        "compare --user nobody",
        "--user is for runs whose models are all real; where the model is scripted, it is the scripted user that",
    ),
    ("compare --loop bar", "unknown loop 'bar'; did you mean 'bare'? known: bare, finish, "),
    ("compare --loop bare(max_steps=x)", "loop bare: max_steps: a whole number is needed, got 'x'"),
    (
        "compare --loop bare(max_consecutive_errors=x)",
        "loop bare: max_consecutive_errors: a whole number is needed, or none, got 'x'",
    ),
    ("compare --suite arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'? known: "),
    (
        "compare --profile flaky-tool",
        "unknown profile 'flaky-tool', which is not a .toml file either; did you mean 'flaky-tools'? known: ",
    ),
    ("compare --program nope.py:solve", "nope.py:solve: there is no file nope.py here"),
    ("ablate --loop finish", "no option --loop; LOOP stands without a flag; see whichloop ablate --help"),
    ("ablate", "LOOP is missing"),
    (
        "why latest bare --profile flaky-tools",
        "no option --profile; an arm is typed as LOOP/PROFILE, such as bare/flaky-tools; see ",
    ),
    ("compare --loop bare --loop bare", "--loop: 'bare' is given twice\n"),
    (
        "compare --cassette-mode replay",
        "--cassette-mode 'replay' needs the folder of a recording: --cassette FOLDER, or cassette in a TOML",
    ),
    ("gate", "--baseline is missing: file that `whichloop bless latest --output FILE` wrote; see whichloop gate --help"),
    (
        "gate --baseline b.json --on-undecided skip",
        "--on-undecided: 'skip' is none of pass, fail, undecided; see whichloop gate --help",
    ),
    (
        "gate --baseline b.json --tasks 5",
        "no option --tasks: a gate runs what its baseline ran; bless another run, of whichloop compare --tasks …; see ",
    ),
    ("gate --base b.json", "no option --base; did you mean '--baseline'? see whichloop gate --help"),
    ("bless", "RUN is missing: run directory; see whichloop bless --help"),
    ("bless latest", "--output is missing: file to write; see whichloop bless --help"),
    ("replay latest", "TRIAL is missing: ARM/TASK/REPEAT; see whichloop replay --help"),
    ("resume latest --retry all", "--retry: 'all' is none of infrastructure, errors; see whichloop resume --help"),
    ("size latest --margin x", "--margin: a number is needed, got 'x'; see whichloop size --help"),
    ("serve --port 99999999", "--port: 65535 or less is needed, got '99999999'; see whichloop serve --help"),
    ("list loop", "there is no list of 'loop'; did you mean 'loops'? known: "),
    ("compere", "no command 'compere'; did you mean 'compare'? see whichloop --help"),
    ("check lop", "no command 'lop'; did you mean 'loop'? see whichloop check --help"),
    ("check loop bare extra", "unexpected 'extra': the command takes no more than NAME; see whichloop check loop --help"),
    ("plan chek x", "no command 'chek'; did you mean 'check'? see whichloop plan --help"),
    ("--frob", "no option --frob; see whichloop --help"),
    ("check --frob", "no option --frob; see whichloop check --help"),
]


@pytest.mark.parametrize(("typed", "said"), MISTAKES)
def test_a_mistake_is_one_line_that_names_what_is_wrong_and_what_is_right(whichloop, here, typed, said):
    ended = whichloop(*typed.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {said}")
    assert ended.err.count("\n") == 1
    assert len(ended.err) <= 2 * WIDTH + 1
    assert "Value error" not in ended.err
    assert "Input should" not in ended.err
    assert list(here.iterdir()) == []


def test_a_group_that_is_typed_alone_shows_its_commands(whichloop):
    ended = whichloop("check")
    assert "Commands:" in ended.out + ended.err
    assert ended.code == 2
