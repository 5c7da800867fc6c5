"""The fixture `loop_gate` in a team's own tests, each run by a pytest of its own."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

# pytester forgets what an inner pytest imports, and numpy cannot be imported twice: so all of it is there before
for each in (
    "checks.pytest_items",
    "checks.suite.check",
    "datasets.arithmetic",
    "experiments.compare.run",
    "experiments.gate.output.github",
    "experiments.gate.in_tests",
    "frameworks",
    "loops.bare",
    "loops.finish",
    "metrics.scorers",
    "programs.program",
):
    importlib.import_module(f"whichloop.{each}")

pytestmark = pytest.mark.thorough
LOOP = "finish"
TEST = """
def test_agent(loop_gate):
    loop_gate({loop!r}, suite="arithmetic", profile="flaky-format", tasks={tasks}{more})
"""


def write(pytester: pytest.Pytester, loop: str = LOOP, tasks: int = 12, more: str = "") -> None:
    pytester.makepyfile(test_mine=TEST.format(loop=loop, tasks=tasks, more=more))


ALONE = ("-p", "whichloop.pytest_plugin", "-p", "no:cacheprovider")
"""No plugin but ours: the others take longer to load than most tests here. `test_workers_of_xdist_tell_the_summary` has all."""


IMPORTED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""The plugin is imported by the tests before a pytest within them could rewrite it."""


def run(pytester: pytest.Pytester, *arguments: str, started_as: str = "pytest") -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.setattr(sys, "argv", started_as.split())  # whatever the outer one was started as
        return pytester.runpytest_inprocess(*ALONE, *IMPORTED, *arguments)


@pytest.fixture(scope="module")
def baselines() -> list[bytes]:
    """The baseline of `test_mine`, once a test has blessed it."""
    return []


@pytest.fixture
def blessed(pytester: pytest.Pytester, baselines: list[bytes]) -> Path:
    """The baseline of `test_mine`, made once for all tests that read it."""
    write(pytester)
    path = pytester.path / "baselines" / "test_mine.test_agent.json"
    if baselines:
        path.parent.mkdir()
        path.write_bytes(baselines[0])
    else:
        run(pytester, "--loop-bless").assert_outcomes(passed=1)
        baselines.append(path.read_bytes())
    return path


def write_each(pytester: pytest.Pytester, calls: Sequence[str]) -> None:
    """Write a test for each call of the gate: one pytest runs all of them."""
    pytester.makepyfile(test_mine="".join(f"def test_{n}(loop_gate):\n    loop_gate({call})\n\n" for n, call in enumerate(calls)))


def assert_each_says(ended: pytest.RunResult, said: Sequence[str]) -> None:
    """The report of the failure of each test has this line."""
    ended.assert_outcomes(failed=len(said))
    ended.stdout.fnmatch_lines([line for n, text in enumerate(said) for line in (f"*_ test_{n} _*", f"loop_gate: {text}")])
    assert "Traceback" not in ended.stdout.str()


def test_without_a_baseline_the_test_fails_and_says_how_to_write_one(pytester):
    write(pytester)
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["no baseline *test_mine.test_agent.json; *: pytest --loop-bless test_mine.py::test_agent"])
    assert not (pytester.path / "baselines").exists()


def test_commands_start_pytest_as_it_was_started(pytester):
    """`python -m pytest` finds code of the present folder, and `pytest` does not."""
    write(pytester)
    module = f"{Path(pytest.__file__).parent / '__main__.py'}"
    run(pytester, started_as=module).stdout.fnmatch_lines(
        ["*; write it with: python -m pytest --loop-bless test_mine.py::test_agent"]
    )


MISTAKES = {
    '"finish", suite="arithmetic", profil="clean"': "unknown keyword 'profil'; did you mean 'profile'*",
    '"finish", suite="arithmetik"': "*arithmetik*",
    '"finish_", suite="arithmetic"': "*finish_*did you mean*finish*",
    'suite="arithmetic"': "name a loop, such as loop_gate*none of them is given",
}


def test_a_mistake_in_a_call_is_told_before_the_missing_baseline(pytester):
    write_each(pytester, [*MISTAKES])
    ended = run(pytester, "--loop-runs", "kept")
    assert_each_says(ended, [*MISTAKES.values()])
    ended.stdout.no_fnmatch_line("no baseline*")
    assert not list((pytester.path / "kept").glob("*"))


def test_another_profile_than_the_baselines_is_refused_before_anything_runs(pytester, blessed):
    pytester.makepyfile(test_mine=TEST.format(loop=LOOP, tasks=12, more="").replace("flaky-format", "flaky-tools"))
    ended = run(pytester, "--loop-runs", "kept")
    ended.assert_outcomes(failed=1)
    bless = "to bless: pytest --loop-bless test_mine.py::test_agent"
    file = blessed.relative_to(pytester.path)
    said = f"loop_gate: {file}: another profile than in the baseline: flaky-tools, not flaky-format"
    ended.stdout.fnmatch_lines([said, f"  {bless}"])
    assert not list((pytester.path / "kept").glob("*")), "no folder is left"


def test_the_hint_to_bless_can_be_pasted_into_any_shell(pytester):
    pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.parametrize("profile", ["clean"])
        def test_agent(loop_gate, profile):
            loop_gate("finish", suite="arithmetic", profile=profile)
        """
    )
    run(pytester).stdout.fnmatch_lines(["no baseline *: pytest --loop-bless 'test_mine.py::test_agent[[]clean]'"])


def test_an_agent_as_a_program_is_gated_by_its_name(pytester):
    pytester.makepyfile(my_agent="def solve(question, tools):\n    return 'not determined'\n")
    pytester.makepyfile(
        test_mine="""
        def test_agent(loop_gate):
            loop_gate(program="my_agent.py:solve", suite="arithmetic(size=2)", repeats=1)
        """
    )
    ended = run(pytester, "--loop-bless")
    ended.stdout.fnmatch_lines(["*my_agent.py:solve/clean: in no trial did the loop ask its model*nothing was blessed*"])


def test_equal_behaviour_passes_and_is_told(pytester, blessed):
    assert json.loads(blessed.read_text(encoding="utf-8"))["whichloop_baseline"] == 1
    ended = run(pytester)
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["*loop gates*", "test_mine.py::test_agent: identical: *"])


def test_a_worse_loop_fails_task_by_task(pytester):
    """Enough tasks that nobody can doubt it: half of the trials end at the first unreadable reply."""
    write(pytester, "bare", tasks=24)
    run(pytester, "--loop-bless").assert_outcomes(passed=1)
    write(pytester, "bare(max_consecutive_errors=1)", tasks=24)
    ended = run(pytester, "--loop-runs", "kept")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["regression: *", "Tasks: * worse*", "- *arithmetic-* worse: *parse*", "*whichloop show *kept*"])
    ended.stdout.fnmatch_lines(
        ["Fix the loop, or bless the run if the loss is meant:", "    pytest --loop-bless test_mine.py::test_agent"]
    )
    assert "Traceback" not in ended.stdout.str()
    assert list((pytester.path / "kept").glob("*/trials.jsonl"))


def test_a_better_loop_passes_with_the_command_that_blesses_it(pytester):
    write(pytester, "finish(parse_retries=0)", tasks=12)
    run(pytester, "--loop-bless").assert_outcomes(passed=1)
    write(pytester, tasks=12)
    ended = run(pytester)
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(
        [
            "*: better here: * of 12 tasks better, none worse; of other tasks this says nothing (between -* and +*)",
            "*: pytest --loop-bless test_mine.py::test_agent # to hold later changes to this run",
        ]
    )


def test_a_loop_that_loses_tasks_and_gains_none_fails_unless_that_is_accepted(pytester):
    """Too few tasks for a test to show it; nothing but the change of the loop can be the cause."""
    write(pytester, tasks=12)
    run(pytester, "--loop-bless").assert_outcomes(passed=1)
    write(pytester, "finish(parse_retries=0)", tasks=12)
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        ["worse here: * lost, none gained (*)", 'Fix the loop, or let it through with on_worse_here="pass", or bless the run *:']
    )
    review = "    whichloop gate * --baseline baselines/test_mine.test_agent.json -v"
    ended.stdout.fnmatch_lines([f"{review} --on-undecided fail # all that changed"])
    write(pytester, "finish(parse_retries=0)", tasks=12, more=", on_other_answers='fail', on_undecided='skip'")
    run(pytester).stdout.fnmatch_lines([f"{review} --on-other-answers fail # all that changed"])
    write(pytester, "finish(parse_retries=0)", tasks=12, more=", on_worse_here='pass'")
    accepted = run(pytester)
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(["*test_agent: worse here: * lost, none gained (*)"])


def test_a_list_of_tasks_that_changed_is_gated_by_those_that_are_the_same(pytester, blessed):
    call = f"loop_gate({LOOP!r}, suite='arithmetic', profile='flaky-format', tasks=5, baseline={str(blessed)!r}"
    pytester.makepyfile(test_mine=f"def test_agent(loop_gate):\n    {call})\n")
    told = run(pytester, "--loop-runs", "kept").stdout
    told.fnmatch_lines(
        ["loop_gate: *: other tasks: * of the baseline are left out, *", "  common_tasks=True judges by those of both"]
    )
    assert not list((pytester.path / "kept").glob("*/trials.jsonl"))
    pytester.makepyfile(test_mine=f"def test_agent(loop_gate):\n    {call}, common_tasks=True)\n")
    run(pytester).stdout.fnmatch_lines(["*identical: *; judged on the 5 tasks that are the same in both (* removed)*"])


def test_undecided_is_what_the_test_says(pytester, blessed):
    """A dozen tasks show no difference between fault draws of two seeds."""
    shared = f"suite='arithmetic', profile='flaky-format', tasks=12, seed=1, baseline={str(blessed)!r}"
    write_each(pytester, [f"{LOOP!r}, {shared}, on_undecided={how!r}" for how in ("fail", "skip", "pass")])
    ended = run(pytester, "-v", "-rs")
    ended.assert_outcomes(failed=1, skipped=1, passed=1)
    ended.stdout.fnmatch_lines(["*::test_0 FAILED*", "*::test_1 SKIPPED*", "*::test_2 PASSED*"])
    ended.stdout.fnmatch_lines(["*_ test_0 _*", "undecided: *", "*::test_2: undecided: *", "SKIPPED *: undecided: *"])
    ended.stdout.fnmatch_lines(
        [
            "The loop is the one of the baseline, * With seed=0, as in the baseline, a change is judged trial by trial:",
            "    pytest test_mine.py::test_0",
            'Where it is undecided, on_undecided="skip" in the test skips it, and on_undecided="pass" lets it pass.',
        ]
    )
    said = ended.stdout.str().partition("undecided: ")[2].partition("= loop gates =")[0]
    assert not [word for word in said.split() if word.startswith("--")], "a test has no flags"


def test_an_empty_baseline_is_told_with_the_command_that_writes_one(pytester, blessed):
    blessed.write_text("", "utf-8")
    (pytester.path / ".git").mkdir()
    file, bless = "baselines/test_mine.test_agent.json", "    pytest --loop-bless test_mine.py::test_agent"
    back = f"take an intact version back with git checkout COMMIT -- {file} (git log -- {file} lists them), or bless it again:"
    run(pytester).stdout.fnmatch_lines([f"loop_gate: {file}: not a baseline: it is empty; {back}", bless])
    blessed.write_text("<<<<<<< HEAD\n", "utf-8")
    both = f"loop_gate: {file}: git could not merge two versions of it, and left both in it"
    side = f"take one side with git checkout --ours -- {file}, or --theirs, while the merge is under way, or bless it again:"
    run(pytester).stdout.fnmatch_lines([f"{both}; {side}", bless])


def test_a_file_that_is_not_there_is_named_in_one_line(pytester):
    pytester.makepyfile(test_mine="def test_agent(loop_gate):\n    loop_gate('bare', suite='jsonl', data='nope.jsonl')\n")
    run(pytester).stdout.fnmatch_lines(["loop_gate: nope.jsonl: no such file, and the test names it as data; put it back, or *"])


def test_blessing_again_gives_a_result_and_says_what_changes(pytester, blessed):
    """A test may read the outcome whatever the flags are."""
    call = f"loop_gate({LOOP + '(parse_retries=0)'!r}, suite='arithmetic', profile='flaky-format', tasks=12)"
    pytester.makepyfile(test_mine=f"def test_agent(loop_gate):\n    assert {call}.outcome == 'blessed'\n")
    ended = run(pytester, "--loop-bless")
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(
        ["*blessed 12 trials: *", "*: arm finish/flaky-format: gone", "*: arm finish(parse_retries=0)/flaky-format: new"]
    )
    run(pytester, "--loop-bless").stdout.fnmatch_lines(["*test_agent: nothing changed"])
    blessed.write_text(blessed.read_text("utf-8").replace("finished", "crashed", 1), "utf-8")
    run(pytester, "--loop-bless").stdout.fnmatch_lines(["*test_agent: it replaces a baseline that could not be read: *"])


def test_the_marker_gives_defaults_and_selects(pytester):
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.loop_gate(suite="arithmetic", tasks=3, baseline="kept/all.json")

        def test_agent(loop_gate):
            loop_gate("bare", tasks=2)

        def test_other():
            pass
        """
    )
    ended = run(pytester, "--loop-bless")
    ended.assert_outcomes(passed=2)
    baseline = json.loads((pytester.path / "kept" / "all.json").read_text(encoding="utf-8"))
    assert (baseline["suite"]["name"], baseline["suite"]["tasks"]) == ("arithmetic", 2)


def test_whoever_uses_the_fixture_is_selected_by_the_marker(pytester):
    write(pytester)
    pytester.makepyfile(test_other="def test_other():\n    pass\n")
    run(pytester, "-m", "not loop_gate").assert_outcomes(passed=1, deselected=1)
    ended = run(pytester, "-m", "loop_gate", "--collect-only", "-q")
    ended.stdout.fnmatch_lines(["test_mine.py::test_agent"])
    ended.stdout.no_fnmatch_line("test_other.py*")


def test_a_class_is_a_loop_too(pytester):
    pytester.makepyfile(
        """
        from whichloop.loops.bare import Bare

        def test_agent(loop_gate):
            loop_gate(Bare, suite="arithmetic", tasks=2)
        """
    )
    run(pytester, "--loop-bless").assert_outcomes(passed=1)
    found = next((pytester.path / "baselines").iterdir())
    assert json.loads(found.read_text(encoding="utf-8"))["arms"].keys() == {"whichloop.loops.bare:Bare/clean"}


BAD_SETTINGS = {
    "sweet=1": "*unknown keyword 'sweet'*did you mean*suite*",
    "step_limit=3": "*unknown keyword 'step_limit'; did you mean 'max_tool_steps'*",
    "margin='a'": "*margin*",
    "metrics=0.1": "*metrics maps metric to margin*",
    "metrics={'grace': 0.1}": "*grace*",
    "on_undecided='maybe'": "*on_undecided is fail, skip, pass, got 'maybe'*",
    "on_worse_here='skip'": "*on_worse_here is fail, pass, got 'skip'*",
    "alpha=2": "*alpha*",
    "common_tasks='all'": "*common_tasks is True or False, got 'all'*",
    "profil='clean'": "unknown keyword 'profil'; did you mean 'profile'*",
    "program='a.py:solve'": "name a loop*or program=*both of them are given*",
    "profiles=('clean',)": "profile and profiles are both given",
}


def test_bad_settings_are_named(pytester, blessed):
    shared = f"{LOOP!r}, suite='arithmetic', profile='flaky-format', tasks=12, baseline={str(blessed)!r}"
    write_each(pytester, [f"{shared}, {setting}" for setting in BAD_SETTINGS])
    assert_each_says(run(pytester), [*BAD_SETTINGS.values()])


def test_another_suite_than_the_baselines_is_refused(pytester, blessed):
    pytester.makepyfile(test_mine=TEST.format(loop=LOOP, tasks=12, more="").replace("arithmetic", "events"))
    ended = run(pytester, "--loop-runs", "kept")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["loop_gate: *suite*"])
    assert not list((pytester.path / "kept").glob("*/trials.jsonl"))  # before anything was spent


def test_what_the_baseline_cannot_answer_is_refused_before_anything_runs(pytester, blessed):
    shared = f"{LOOP!r}, suite='arithmetic', profile='flaky-format', tasks=12, baseline={str(blessed)!r}"
    write_each(pytester, [f"{shared}, metrics={{'cost_usd': 0.1}}", f"{shared}, margin=2"])
    assert_each_says(run(pytester, "--loop-runs", "kept"), ["*cost_usd*", "*margin*"])
    assert not (pytester.path / "kept").exists()


@pytest.mark.parametrize(("second", "outcome"), [("", "failed"), (", baseline='other.json'", "passed")])
def test_two_calls_never_share_a_baseline(pytester, second, outcome):
    """The first would be held against what the second gave."""
    pytester.makepyfile(
        f"""
        def test_agents(loop_gate):
            loop_gate("bare", suite="arithmetic", tasks=2)
            loop_gate("finish", suite="arithmetic", tasks=2{second})
        """
    )
    ended = run(pytester, "--loop-bless")
    ended.assert_outcomes(**{outcome: 1})
    if not second:
        ended.stdout.fnmatch_lines(["loop_gate: *was written by another call just now*baseline=*"])


def test_an_async_test_is_told_that_it_must_not_be_one(pytester, blessed):
    pytester.makepyfile(
        test_mine="""
        import asyncio

        def test_agent(loop_gate):
            async def inside():
                loop_gate("finish", suite="arithmetic", profile="flaky-format", tasks=12)

            asyncio.run(inside())
        """
    )
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["*call it from a test that is not async*"])


def test_importing_the_plugin_imports_nothing_heavy():
    """It is loaded by every pytest beside which whichloop is installed."""
    code = (
        "import sys, whichloop.pytest_plugin; heavy = {'dspy', 'mlflow', 'numpy', 'pandas', 'pydantic', 'scipy'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


TELLS = """
def test_that_tells(loop_gate):
    print("captured")
    loop_gate.tell("loop_gate: a trial hangs")
"""


@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_a_trial_that_hangs_is_told_at_once_whatever_pytest_captures(pytester, capfd, capture):
    pytester.makepyfile(test_mine=TELLS)
    ended = run(pytester, f"--capture={capture}")
    ended.assert_outcomes(passed=1)
    assert "\nloop_gate: a trial hangs\n" in capfd.readouterr().err
    assert ("captured" in ended.stdout.str()) == (capture == "no")


@pytest.mark.slow
def test_workers_of_xdist_tell_the_summary(pytester, blessed):
    pytester.makepyfile(test_telling=TELLS)
    ended = pytester.runpytest_subprocess("-n", "1", "-p", "no:cacheprovider", "--junitxml", "out.xml")
    ended.assert_outcomes(passed=2)
    ended.stderr.fnmatch_lines(["loop_gate: a trial hangs"])
    ended.stdout.fnmatch_lines(["test_mine.py::test_agent: identical: *"])
    assert 'name="loop_gate" value="identical: ' in (pytester.path / "out.xml").read_text(encoding="utf-8")
