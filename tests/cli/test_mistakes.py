"""What is wrong with a command, in its words or in a file that it names: one line, exit code 2, and nothing written."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.sealing import reseal

FILES = {
    "bad.toml": b"lops = ['bare']\n",
    "torn.toml": b"loops = [\n",
    "sly.toml": b'"lops\\u001b[2J\\u202e" = 1\n',  # a name that would clear the terminal
    "keyed.toml": b"provider = 'sk-proj-0123456789abcdef'\n",
    "bad.csv": b"task,score\nx,much\n",
    "wrong.jsonl": b'{"question": "a", "answer": 1}\n{"question": "b", "answer": 1, "scorer": "numerik"}\n',
    "own.jsonl": b'{"question": "a", "answer": 1, "scorer": "os:getcwd"}\n',
    "plain.jsonl": b'{"question": "a", "answer": 1}\n',
    "planned.jsonl": b'{"question": "a", "answer": 1, "plan": ["price(item=1)"]}\n',
    "own_leaving.py": b"import sys\nsys.exit(3)\n",
    "broken.py": b"def (\n",
    "half.py": b"class Mine:\n    name = 'mine'\n    async def run(self, *given): ...\n",
    "agent.py": b"def alone(question): ...\nLATER = 3\n",
    "empty.json": b"{}",
}
OWN = "compare --suite jsonl --loop bare --data"

MISTAKES = [
    # commands, options, and what does not go together
    ("compare --loops bare", "No such option: --loops"),
    ("compare --json -q -v", "Invalid value: --quiet and --verbose exclude each other; see whichloop compare --help"),
    ("compare --vary parse_retries=0,2", "--vary: it is about the options of one loop"),
    ("compare -s provider.temperature=9", "provider is for real models; name one, such as openai/gpt-4o-mini"),
    ("compare -s cassette_mode=replay", "cassette_mode 'replay' needs cassette, the folder of a recording"),
    ("compare -s base_url=http://x", "base_url is for real models"),
    ("compare --model openai/x --profile flaky-format", "profile flaky-format has no fault of tools or providers: openai/x "),
    ("check bare --tasks 3", "--tasks: it is for `check suite`, not for `check loop`"),
    # names
    ("compare --suite arithmetics", "unknown suite 'arithmetics'; did you mean 'arithmetic'? known: "),
    ("compare --suite gsm8k", "gsm8k: no data file; give the published one with --data FILE"),
    ("compare --loop bear", "unknown loop 'bear'; did you mean 'bare'? known: bare, finish, "),
    ("compare --loop bare(max_step=3)", "loop bare: unknown option 'max_step'; did you mean 'max_steps'?"),
    ("compare --loop bare(max_steps=x)", "loop bare: max_steps: Input should be a valid integer"),
    ("compare --loop bare --loop bare", "--loop: 'bare' is given twice"),
    ("compare --loop no_module:X", "loop 'no_module:X': no module named 'no_module'"),
    ("check loop broken:Loop", "loop 'broken:Loop': importing broken failed: SyntaxError"),
    ("check loop half:Mine", "loop half:Mine: it lacks stops and with_step_limit: see whichloop.protocol.Loop"),
    ("compare --profile flaky-tool", "unknown profile 'flaky-tool', which is not a .toml file either; did you mean"),
    ("compare --model openai", "model 'openai': write provider/model"),
    ("compare -s repaets=3", "-s repaets: there is no such setting; did you mean 'repeats'?"),
    ("optimize --optimizer MIPROv2", "optimizer MIPROv2 needs optuna, which is not installed: pip install "),
    ("list loop", "Invalid value for KIND: 'loop' is none of loops, "),
    ("report nowhere", "no run 'nowhere' in runs; known: none"),
    # values
    ("compare --tasks 0", "--tasks: Input should be greater than or equal to 1, got 0"),
    ("compare --budget 5apples", "--budget: '5apples' is not a budget; write calls, tokens"),
    ("compare -s name=sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2", "-s name: it holds what looks like a secret"),
    ("optimize --loop bare --budget $0.02", "-s price: a budget in dollars needs one"),
    ("check suite arithmetic(size=0)", "size is 0"),
    # files
    ("compare --config none.toml", "none.toml: no such file"),
    ("compare --config bad.toml", "bad.toml: lops: there is no such setting; did you mean 'loops'"),
    ("compare --config torn.toml", "torn.toml: not valid TOML"),
    ("compare --config sly.toml", "sly.toml: lops\\x1b[2J\\x202e: there is no such setting"),
    ("compare --config keyed.toml", "keyed.toml: provider: Input should be a valid dictionary"),
    ("compare --suite csv --data none.csv", "none.csv: no such file"),
    ("report .", "no run '.' in runs; known: none"),
    ("report latest --runs torn.toml", "--runs: torn.toml is a file; name a folder"),
    ("compare --loop bare --runs torn.toml/runs", "--runs: torn.toml is a file; name a folder"),
    ("report torn.toml", "torn.toml is a file, not a run; whichloop import torn.toml reads results of other tools"),
    ("gate --baseline none.json", "none.json: no such file; whichloop gate RUN --bless --output none.json writes one"),
    ("gate --baseline empty.json", "empty.json: not a baseline"),
    ("prompts bare empty.json", "empty.json: not a program: it holds no predictor"),
    ("import bad.csv", "bad.csv: line 2: the score is not a number: 'much'"),
    # tasks and tools of the user's own
    (f"{OWN} planned.jsonl", "planned.jsonl, line 1, task 'planned-0001', call 'call1': no tool 'price': name the module "),
    (f"{OWN} planned.jsonl --tools own_leaving", "tools 'own_leaving': importing own_leaving failed: SystemExit: 3"),
    (f"{OWN} wrong.jsonl", "wrong.jsonl, line 2: unknown scorer 'numerik'; did you mean 'numeric'? known: bfcl, contains"),
    (f"{OWN} own.jsonl", "own.jsonl, line 1, scorer 'os:getcwd' is code of your own; type its name"),
    (f"{OWN} plain.jsonl", "1 of 1 task has no plan, which the scripted model needs"),
    # programs of the user's own
    ("compare --program nope.sh", "command: there is no 'nope.sh' to run"),
    ("compare --program nope.py:solve", "nope.py:solve: there is no file nope.py here"),
    ("check program agent.py:alone", "agent.py:alone: alone(question): a program is solve(task), or solve("),
    ("check program http://127.0.0.1:9/", "nothing answers at http://127.0.0.1:9/"),
    ("compare --program 'python agent.py(venv=nowhere)'", "venv: nowhere has no bin/python"),
    ("compare --program 'cat x(label=a)' --program 'cat y(label=a)'", "two arms are both called 'a/"),
]


@pytest.mark.parametrize(("typed", "said"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_what_is_wrong(whichloop, here, monkeypatch, typed, said):
    monkeypatch.setitem(sys.modules, "optuna", None)  # as where it is not installed
    for name, content in FILES.items():
        if Path(name).stem in typed:
            (here / name).write_bytes(content)
    refused(whichloop, here, shlex.split(typed), said)


def refused(whichloop, here: Path, words: list[str], said: str) -> None:
    before = [path for path in sorted(here.rglob("*")) if "__pycache__" not in path.parts]
    ended = whichloop(*words)
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert ended.err.startswith("error: ")
    assert said in ended.err, ended.err
    assert ended.err.count("\n") == 1
    assert not [text for text in ("Value error", "0123456789", "\x1b", "\u202e") if text in ended.err]
    assert [path for path in sorted(here.rglob("*")) if "__pycache__" not in path.parts] == before


GATE = "gate pilot --baseline b.json"
TRIAL = "show pilot bare/flaky-format/arithmetic-0001/0"
PROFILE = "learn profile pilot"
OF_A_RUN = [
    ("report pilot pilot --why", "RUN: one run at most, got 2"),
    ("report pilot o", "is an optimization; compare its test with other runs"),
    ("report pilot --arm bare", "--arm goes with --why, --size or --card"),
    ("report pilot --size --margin 2", "--margin: it must be more than 0 and less than 1, got 2.0"),
    (f"{TRIAL} --faults tool.raise@decide:c1", "did you mean 'tool.raises'?"),
    (f"{GATE} --metric cost_usd", "metric cost_usd: not known for all trials of bare/flaky-format in the baseline"),
    (f"{GATE} --accept worse", "accept.0: Input should be 'undecided', "),
    (f"{GATE} --seed 1", "--seed goes with a new run, not RUN or --bless"),
    (f"{PROFILE} -o kept.toml", "exists; overwrite it with --force"),
    (f"{PROFILE} --held-out", "an order needs 3 loops or more, and this model has 2"),
    ("learn plans pilot", "plans need a file: --output FILE.jsonl"),
    ("resume pilot --add-loop bare", "--add-loop: 'bare' is given twice"),
    ("resume pilot --rescore --retry errors", "--rescore: it takes --allow, --runs and -s data=FILE alone"),
    # an optimization that has come to no test
    ("resume o --retry errors", "is an optimization, which goes on as it began"),
]


@pytest.fixture(scope="module")
def asked_of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run that `OF_A_RUN` is about, which the first of its tests makes and no other changes."""
    return tmp_path_factory.mktemp("asked")


@pytest.mark.parametrize(("typed", "said"), OF_A_RUN, ids=[typed for typed, _ in OF_A_RUN])
def test_a_mistake_about_a_run_is_one_line_and_the_run_stays_as_it_is(whichloop, monkeypatch, asked_of, typed, said):
    monkeypatch.chdir(asked_of)
    if not (asked_of / "runs").exists():
        loops = ("--loop", "bare", "--loop", "finish", "--profile", "flaky-format")
        assert whichloop("compare", *loops, "--suite", "arithmetic(size=6)", "-s", "name=pilot", "-q").code == 0
        assert whichloop("gate", "pilot", "--bless", "--output", "b.json").code == 0
        (asked_of / "runs" / "o").mkdir()
        (asked_of / "runs" / "o" / "manifest.json").write_text('{"kind": "optimization", "config": {}}')
        reseal(asked_of / "runs" / "o" / "manifest.json")
        (asked_of / "kept.toml").write_text("mine\n")
    before = {path: path.read_bytes() for path in asked_of.rglob("*.*") if path.is_file()}
    refused(whichloop, asked_of, shlex.split(typed), said)
    assert {path: path.read_bytes() for path in before} == before
