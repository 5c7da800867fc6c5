"""What every command has in common: a quick start, and one line for each mistake."""

from __future__ import annotations

import subprocess
import sys

import pytest

QUICK = ["--loop", "bare", "--suite", "arithmetic(size=6)", "--profile", "clean"]


# --- start ---


def test_help_and_import_load_nothing_heavy():
    code = """
import sys
import whichloop
loaded = {name for name in sys.modules if name.startswith("whichloop.")} - {"whichloop._lazy"}
assert not loaded, f"import whichloop loads {loaded}"
from whichloop.cli.main import main
sys.argv = ["whichloop", "--help"]
try:
    main()
except SystemExit as left:
    assert not left.code
heavy = {"dspy", "mlflow", "scipy", "statsmodels", "pandas", "numpy", "litellm", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    made = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "compare" in made.stdout
    assert made.stderr == ""


def test_version(whichloop):
    assert whichloop("--version").out.startswith("whichloop ")


# --- mistakes ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "--suite", "nope"], "unknown suite 'nope'"),
        (["compare", "--suite", "arithmetics"], "did you mean 'arithmetic'"),
        (["compare", "--suite", "gsm8k"], "--data FILE"),
        (["compare", "--suite", "gsm8k", "--data", "none.jsonl"], "none.jsonl"),
        (["compare", "--loop", "bear"], "did you mean 'bare'"),
        (["compare", "--loop", "bare("], "not a name"),
        (["compare", "--loop", "bare(max_step=3)"], "did you mean 'max_steps'"),
        (["compare", "--loop", "bare(max_steps=x)"], "max_steps: "),
        (["compare", "--loop", "bare", "--loop", "bare"], "'bare' is given twice"),
        (["compare", "--loop", "no_module:X"], "no module named 'no_module'"),
        (["compare", "--profile", "flaky"], "unknown profile 'flaky'"),
        (["compare", "--profile", "none.toml"], "none.toml"),
        (["compare", "--model", "gpt"], "write provider/model"),
        (
            ["compare", "--model", "openai/x", "--profile", "flaky-format"],
            "profile flaky-format has no fault of tools or providers: openai/x ",
        ),
        (["compare", "--tasks", "0"], "error: --tasks: "),
        (["compare", "--repeats", "-1"], "error: --repeats: "),
        (["compare", "-s", "concurrency=0"], "error: -s concurrency: "),
        (["compare", "-s", "alpha=2"], "error: -s alpha: "),
        (["compare", "-s", "alpha=nan"], "error: -s alpha: "),
        (["compare", "-s", "margin=0"], "error: -s margin: "),
        (["compare", "-s", "trial_timeout_s=inf"], "error: -s trial_timeout_s: "),
        (["compare", "--budget", "0calls"], "error: --budget: "),
        (["compare", "--config", "none.toml"], "error: none.toml: no such file\n"),
        (["compare", "--config", "."], "error: .: is a directory"),
        (["compare", "--suite", "csv", "--data", "folder.csv"], "error: folder.csv: is a directory"),
        (["compare", "--config", "bad.toml"], "bad.toml: lops: there is no such setting; did you mean 'loops'"),
        (["compare", "--config", "torn.toml"], "torn.toml: not valid TOML"),
        (["compare", "--config", "latin.toml"], "latin.toml: not valid TOML"),
        (["compare", "--config", "typed.toml"], "typed.toml: seed: "),
        (["compare", "--config", "keyed.toml"], "keyed.toml: provider: Input should be a valid dictionary"),
        (["compare", "--config", "twice.toml"], "error: twice.toml: loops: 'bare' is given twice"),
        (["compare", "--config", "alone.toml"], "error: alone.toml: "),
        (["compare", "--config", "names.toml"], "error: unknown profile 'flaky-tool', which is not a .toml"),
        (["compare", "--config", "names.toml", "--profile", "flaky"], "error: unknown profile 'flaky', which is not a .toml"),
        (
            ["compare", "--config", "names.toml", "--profile", "clean"],
            "error: unknown loop 'fnish'; did you mean",
        ),
        (["compare", "--loop", "fnish", "--vary", "a=1", "--config", "names.toml"], "error: unknown loop 'fnish'"),
        (
            ["compare", "--loop", "finish", "--vary", "parse_retries=0,1", "--config", "names.toml"],
            "error: unknown",
        ),
        (["optimize", "--config", "names.toml"], "error: unknown"),
        (["optimize", "--config", "twice.toml"], "error: twice.toml: loops: 'bare' is given twice"),
        (["optimize", "--config", "twice.toml", "--loop", "bare", "--train", "0"], "error: --train: "),
        (["optimize", "-s", "threads=0"], "error: -s threads: "),
        (["optimize", "--tasks", "0"], "error: --tasks: "),
        (["resume", "nope"], "no run 'nope'"),
        (["resume", "latest"], "no run 'latest'"),
        (["report", "nope"], "no run 'nope'; in runs: none yet"),
        (["report"], "no run 'latest'; in runs: none yet\n"),
        (["report", "--runs", "elsewhere"], "no run 'latest'; in elsewhere: none yet\n"),
        (["show"], "no run 'latest'; in runs: none yet"),
        (["report", "."], "not a run directory (it has no manifest.json)"),
        (["report", ".", "--json", "--format", "csv"], "exclude each other"),
        (
            ["report", "torn.toml"],
            "error: torn.toml is a file, not a run; whichloop import torn.toml reads results of other tools\n",
        ),
        (["show", "./torn.toml", "x"], "error: ./torn.toml is a file, not a run; "),
        (["report", "--why", "folder.csv/../torn.toml"], "torn.toml is a file, not a run; "),
        (["show", "nope", "x"], "no run 'nope'"),
        (["show", ".", "x"], "not a run directory"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(whichloop, here, arguments, said):
    (here / "bad.toml").write_text("lops = ['bare']\n")
    (here / "torn.toml").write_text("loops = [\n")
    (here / "latin.toml").write_bytes("experiment = 'Z\u00fcrich'\n".encode("latin-1"))
    (here / "twice.toml").write_text("loops = ['bare', 'bare']\n")
    (here / "alone.toml").write_text("address = 'x'\n")
    (here / "names.toml").write_text("loops = ['fnish']\nprofiles = ['flaky-tool']\n")
    (here / "typed.toml").write_text("seed = 'x'\n")
    (here / "keyed.toml").write_text("provider = 'sk-proj-0123456789abcdef'\n")
    (here / "folder.csv").mkdir()
    before = sorted(here.iterdir())
    found = whichloop(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert found.err.startswith("error: ")
    assert said in found.err
    assert "0123456789" not in found.err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["frob"],
        ["compare", "--frob"],
        ["compare", "--tasks", "x"],
        ["prompts"],
        ["compare", "extra"],
    ],
)
def test_what_the_command_does_not_know_is_a_usage_error(whichloop, here, arguments):
    found = whichloop(*arguments)
    assert (found.code, found.out) == (2, "")
    assert "error" in found.err.lower()
    assert list(here.iterdir()) == []


def test_text_from_a_file_reaches_the_terminal_without_its_control_characters(whichloop, here):
    (here / "sly.toml").write_bytes(b'loops = ["bare\\u001b[2J\\u202e"]\n')
    found = whichloop("compare", "--config", "sly.toml")
    assert found.code == 2
    assert not {"\x1b", "\u202e"} & set(found.err)


def test_a_folder_that_cannot_be_written_is_one_line(whichloop, here):
    (here / "runs").write_text("a file")
    found = whichloop("compare", *QUICK)
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "Errno" not in found.err


def test_a_process_says_the_same(machine, here):
    (here / "torn.toml").write_text("loops = [\n")
    found = machine.run("compare", "--config", "torn.toml")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error: torn.toml: not valid TOML")
    assert found.err.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["torn.toml"]
