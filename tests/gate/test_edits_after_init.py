"""A loop is edited after `whichloop init`: the test that it wrote says what each edit did, and passes once it is undone."""

from __future__ import annotations

import re
import sys

import pytest

from tests.gate.test_pytest_plugin import run

pytestmark = pytest.mark.thorough
SEEN = '            messages.append(Message("user", f"{seen.tool_name}'
ANSWER = "return Outcome(move.value, StopReason.FINISHED, step + 1)"
EDITS = {
    "gives up at a tool's error": (
        SEEN,
        f"            if seen.error_type:\n                return Outcome(None, StopReason.MAX_STEPS, step + 1)\n{SEEN}",
        [r"(regression|worse here): .* (worse|lost)", r"(fault not recovered|termination)", r"to see|whichloop show \S+ "],
    ),
    "raises at a tool's error": (
        SEEN,
        f"            if seen.error_type:\n                raise KeyError(undefined)\n{SEEN}",
        [r"regression: \d+ trials crash now \(NameError: .* at my_loop\.py:\d+\)"],
    ),
    "answers with text": (
        ANSWER,
        ANSWER.replace("move.value", "str(move.value)"),
        [
            r'other answers: \d+ trials .*, which on_other_answers="fail" forbids',
            r'Such as my_loop:MyLoop/flaky-tools/\S+: (\S+) → "\1", a number in the baseline and a text now\.',
            r"whichloop show \S+ my_loop:MyLoop/flaky-tools/",
            r"Fix the loop, or bless the run if the other answers are meant:\n    pytest --loop-bless ",
        ],
    ),
}
HANDLER = "            except ProviderError:\n"


@pytest.mark.slow
def test_each_edit_fails_with_what_it_did_and_undone_the_test_passes(pytester):
    for command in (("new", "loop", "my_loop"), ("init", "--loop", "my_loop:MyLoop")):
        assert pytester.run(sys.executable, "-m", "whichloop", *command).ret == 0
    own = pytester.path / "my_loop.py"
    blessed = own.read_text("utf-8")
    chosen = ("tests/test_loops.py", "-k", "flaky-tools", "-o", "pythonpath=.")
    run(pytester, *chosen, "--loop-bless").assert_outcomes(passed=1, deselected=1)
    for what, (old, new, said) in EDITS.items():
        assert blessed.count(old) == 1, what
        own.write_text(blessed.replace(old, new), "utf-8")
        ended = run(pytester, *chosen)
        ended.assert_outcomes(failed=1, deselected=1)
        told = ended.stdout.str()
        assert [each for each in said if not re.search(each, told)] == [], f"{what}: {told}"
    own.write_text(blessed.replace(HANDLER, f"{HANDLER}                print(undefined)\n"), "utf-8")
    ended = run(pytester, *chosen)
    ended.assert_outcomes(passed=1, deselected=1)
    ended.stdout.fnmatch_lines(["No trial ran the changed line * of my_loop.py, so nothing is known of what it does."])
    own.write_text(blessed, "utf-8")
    ended = run(pytester, *chosen)
    ended.assert_outcomes(passed=1, deselected=1)
    ended.stdout.fnmatch_lines(["*: identical: behaviour unchanged in all 72 trials"])
