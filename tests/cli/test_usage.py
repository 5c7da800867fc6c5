"""What is wrong with the words of a command, in one line."""

from __future__ import annotations

import pytest

MISTAKES = [
    ("compare --loops bare", "No such option: --loops", "compare"),
    ("show latest --vv", "No such option: --vv", "show"),
    ("plan check", "Missing argument 'FILE'", "plan check"),
    ("compare --tasks x", "Invalid value for '--tasks'", "compare"),
    ("compare --tasks", "Option '--tasks' requires an argument", "compare"),
    ("compare --margin 5%", "Invalid value for '--margin'", "compare"),
    ("ablate", "Missing argument 'LOOP'", "ablate"),
    ("gate", "Invalid value for --baseline", "gate"),
    ("gate --bless", "Invalid value for --output", "gate"),
    ("serve --port 99999999", "Invalid value for '--port'", "serve"),
    ("compere", "No such command 'compere'", ""),
    ("compare --loop finish bare", "Got unexpected extra argument", "compare"),
    ("check loop bare extra", "Got unexpected extra argument", "check loop"),
    ("plan chek x", "No such command 'chek'", "plan"),
    ("check --frob", "No such option: --frob", "check"),
    ("compare --tasks 0", "--tasks: 1 or more is needed, got 0", None),
    ("compare --alpha 2", "--alpha: less than 1 is needed, got 2.0", None),
    ("compare --engine rai", "--engine: 'local' or 'ray' is needed, got 'rai'", None),
    ("compare --temperature 9", "--temperature is for real models; name one, such as openai/gpt-4o-mini", None),
    (
        "compare --user nobody",
        "--user is for runs whose models are all real; where the model",
        None,
    ),
    ("compare --loop bar", "unknown loop 'bar'; did you mean 'bare'? known: bare, finish, ", None),
    ("compare --loop bare(max_steps=x)", "loop bare: max_steps: a whole number is needed, got 'x'", None),
    ("compare --suite arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'? known: ", None),
    ("compare --profile flaky-tool", "unknown profile 'flaky-tool', which is not a .toml file either; did you mean", None),
    ("compare --program nope.py:solve", "nope.py:solve: there is no file nope.py here", None),
    ("compare --loop bare --loop bare", "--loop: 'bare' is given twice\n", None),
    ("compare --cassette-mode replay", "--cassette-mode 'replay' needs the folder of a recording: --cassette FOLDER, or cas", None),
    ("list loop", "there is no list of 'loop'; did you mean 'loops'? known: ", None),
]


@pytest.mark.parametrize(("typed", "said", "command"), MISTAKES)
def test_a_mistake_is_one_line_that_names_what_is_wrong(whichloop, here, typed, said, command):
    """`command`: whose help is named where the parser of the command line found it."""
    ended = whichloop(*typed.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {said}")
    assert ended.err.count("\n") == 1
    if command is not None:
        assert ended.err.endswith(f"; see {' '.join(['whichloop', *command.split()])} --help\n")
    assert "Value error" not in ended.err
    assert list(here.iterdir()) == []


def test_a_group_that_is_typed_alone_shows_its_commands(whichloop):
    ended = whichloop("check")
    assert "Commands:" in ended.out + ended.err
    assert ended.code == 2
