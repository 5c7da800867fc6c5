"""What is said for the command line, in Python's words."""

from __future__ import annotations

import ast

from whichloop.reports.in_python import in_python, said_in_python
from whichloop.runs.config import CompareConfig


def test_the_words_of_an_error_are_those_of_python() -> None:
    assert in_python("needs data: give --data FILE") == "needs data: give data=FILE"
    assert in_python("leave --tools out") == "leave tools out"
    assert in_python("--skip-unplanned leaves them out") == "skip_unplanned=True leaves them out"
    assert in_python("type it again: --base-url http://h:1, or log nothing: --no-mlflow") == (
        "type it again: base_url='http://h:1', or log nothing: mlflow=False"
    )
    assert in_python("imported: --allow my.module:Loop") == "imported: allow=['my.module:Loop']"
    assert in_python("only (--traces failures)\nkept") == "only (traces='failures') kept"
    assert in_python("--unknown-flag stays, and a--data too") == "--unknown-flag stays, and a--data too"


def test_values_that_are_to_be_passed_are_written_as_python_has_them() -> None:
    assert in_python("2 × 300 (--repeats 2 --suite 'shop(size=300)')") == "2 × 300 (repeats=2 suite='shop(size=300)')"
    assert in_python("add --profile flaky-format or --profile flaky-tools") == (
        "add profiles=['flaky-format'] or profiles=['flaky-tools']"
    )
    assert in_python("--profile is given twice") == "profiles is given twice"


def test_a_command_becomes_the_call_that_does_the_same() -> None:
    said = said_in_python(
        [
            "  whichloop show 'my runs/a' bare/clean/t1/0",
            "whichloop bless latest --output base.json",
            "whichloop compare --loop bare --loop 'finish(parse_retries=0)' --suite 'shop(size=9)' --seed 1 --no-mlflow",
            "whichloop gate --baseline base.json",
            "whichloop report latest, or --tasks 20",
            "whichloop can't be split",
        ]
    )
    assert said[0] == "  whichloop.load('my runs/a').show('bare/clean/t1/0')"
    assert said[1] == "whichloop.bless('latest', 'base.json')"
    call = ast.parse(said[2], mode="eval").body
    assert isinstance(call, ast.Call)
    settings = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    assert settings == {
        "loops": ["bare", "finish(parse_retries=0)"],
        "suite": "shop(size=9)",
        "seed": 1,
        "mlflow": False,
    }
    assert CompareConfig(**settings).suite == "shop(size=9)"
    assert said[3] == "whichloop.gate('base.json')"
    assert said[4:] == ["whichloop report latest, or tasks=20", "whichloop can't be split"]
