"""`check` on plans, end to end."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.plans import plan_findings

SHOP = '''
"""The order desk's tools."""
from pathlib import Path

PRICES = {"lamp": 39.9, "chair": 120.0}

def price(item: str) -> float:
    """Price of one item, in euros."""
    Path("asked").touch()
    return PRICES[item]
'''
GOOD = {"question": "What does a lamp cost?", "answer": 39.9, "plan": ["lamp = price(item='lamp')", "answer = lamp"]}


@pytest.fixture
def plan(whichloop, here):
    (here / "shop.py").write_text(SHOP)

    def run(*words, code=0):
        done = whichloop("check", *words)
        assert done.code == code, done.out + done.err
        return done

    return run


def tasks(folder, *rows):
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "t.jsonl"


def test_right_plans_are_counted(plan, tmp_path):
    file = tasks(tmp_path, GOOD, {"question": "And today?", "answer": "Monday"})
    assert "Plans      1 of 2 tasks, 1 call\nCalls      tools unknown: --tools MODULE\n" in plan(file).out
    assert "Calls      fit the tools, none was made: --run-tools" in plan(file, "--tools", "shop").out
    assert not (tmp_path / "asked").exists()
    assert "Right      1 plan leads to the right answer" in plan(file, "--tools", "shop", "--run-tools").out
    assert (tmp_path / "asked").exists()
    assert "t-0001\nlamp = price(item='lamp')\nanswer = lamp\n" in plan(file, "-v").out


def test_a_file_without_a_plan_is_refused_with_the_column_that_may_be_meant(plan, whichloop, tmp_path):
    """A check that passes on it would pass in CI."""
    typo = {"plans" if name == "plan" else name: value for name, value in GOOD.items()}
    unused = "columns not used: 'plans'"
    done = plan(tasks(tmp_path, typo), code=2)
    assert (done.out, done.err) == ("", f"error: t.jsonl: there is no plan to check in 1 task; {unused}\n")
    compared = whichloop("compare", "--suite", "jsonl", "--data", "t.jsonl", "--tools", "shop")
    assert compared.code == 2
    assert "; write plans (whichloop list plan-schema), or run a real model and learn them" in compared.err
    assert f"Warning    {unused}\n" in plan(tasks(tmp_path, GOOD, typo)).out


def test_every_mistake_is_told_with_its_line(plan, tmp_path):
    file = tasks(
        tmp_path,
        GOOD | {"plan": ["price(itm='lamp')"]},
        GOOD | {"plan": ["prize(item='lamp')"]},
        GOOD | {"plan": ["price('lamp')"]},
        GOOD | {"plan": {"calls": []}},
        GOOD,
        GOOD | {"plan": ["sofa = price(item='sofa')", "answer = sofa"]},
        GOOD | {"answer": 40},
    )
    told = plan(file, "--tools", "shop", "--run-tools", code=1).out.splitlines()
    assert [line.partition(": ")[0] for line in told[1:7]] == [f"t.jsonl, line {n}" for n in (1, 2, 3, 4, 6, 7)]
    assert told[7] == "Problems   6"
    listed = json.loads(plan(file, "--tools", "shop", "--run-tools", "--json", code=1).out)
    assert listed["problems"] == told[1:7]
    assert (listed["planned"], listed["calls"], listed["carried_out"]) == (4, 4, True)


@given(
    st.lists(st.sampled_from(["sound", "no call", "unread lines", "no tool", "fails"]), min_size=1, max_size=6),
    st.sampled_from([(), ("--tools", "shop"), ("--tools", "shop", "--run-tools")]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=cases(12), deadline=None)
def test_mistakes_stand_in_the_order_of_the_file_whatever_finds_them(plan, tmp_path, kinds, words):
    """A row that cannot be read tells each line of its plan, with tools as without."""
    plans = {
        "sound": GOOD["plan"],
        "no call": ["lamp = 3", "answer = lamp"],
        "unread lines": ["price('lamp')", "lamp = 3"],
        "no tool": ["prize(item='lamp')"],
        "fails": ["sofa = price(item='sofa')", "answer = sofa"],
    }
    file = tasks(tmp_path, *(GOOD | {"plan": plans[kind]} for kind in kinds))
    told = {"no call": 1, "unread lines": 2, "no tool": "--tools" in words, "fails": "--run-tools" in words}
    wrong = [f"t.jsonl, line {number}" for number, kind in enumerate(kinds, 1) for _ in range(told.get(kind, 0))]
    listed = json.loads(plan(file, *words, "--json", code=1 if wrong else 0).out)
    assert [problem.partition(": ")[0] for problem in listed["problems"]] == wrong


LAMP = "price(item='lamp')"
SHORT = GOOD | {"plan": LAMP}


def test_a_plan_without_an_answer_is_not_said_to_lead_to_one(plan, tmp_path):
    file = tasks(
        tmp_path,
        GOOD,
        SHORT | {"question": "And now?"},
        SHORT | {"question": "Is it cheap?", "answer": "yes", "plan": [LAMP, "answer = 'yes'"]},
    )
    told = plan(file, "--tools", "shop", "--run-tools").out
    own = "Stated     2 plans with the row's own answer: right by construction\n"
    assert f"Right      1 plan leads to the right answer\n{own}" in told
    assert "Warning    1 of them: a call gives it; write `answer = NAME` last" in told
    assert own in plan(file, "--tools", "shop").out
    assert json.loads(plan(file, "--json").out)["by_construction"] == 2


@pytest.mark.parametrize(("answer", "shown"), [(3, "3"), ("yes", "'yes'"), (39, "39")])
def test_a_right_answer_that_no_call_gives_is_told_with_both_values(plan, tmp_path, answer, shown):
    file = tasks(tmp_path, SHORT | {"answer": answer})
    told = plan(file, "--tools", "shop", "--run-tools", code=1).out.splitlines()
    assert told[0] == "plans t.jsonl"
    assert told[1].startswith("t.jsonl, line 1: task 't-0001': the plan has no `answer = …`, its last call 'call1' gives 39.9, ")
    assert f"the row's right answer is {shown} (scorer " in told[1]
    stated = tasks(tmp_path, SHORT | {"answer": answer, "plan": [LAMP, f"answer = {shown}"]})
    assert "right by construction\n" in plan(stated, "--tools", "shop", "--run-tools").out


@pytest.mark.parametrize(
    ("text", "led"), [(f"cost = {LAMP}\nanswer = cost", "Answer     39.9, and only a task"), (LAMP, "Answer     none, and")]
)
def test_a_plan_alone_is_carried_out(plan, tmp_path, text, led):
    (tmp_path / "one.plan").write_text(text)
    assert led in plan("one.plan", "--tools", "shop", "--run-tools").out
    (tmp_path / "one.plan").write_text(text.replace("lamp", "sofa"))
    assert "one.plan: task 'one', call 'c" in plan("one.plan", "--tools", "shop", "--run-tools", code=1).out


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("t.plan", '{"calls": [{"id": "a", "tool": "price", "arguments": {"item": %s}}]}', "t.plan: "),
        ("t.plan", "price(item=%s)", "t.plan, line 1: "),
        ("t.jsonl", '{"question": "q", "answer": %s, "plan": ["price(item=1)"]}', "t.jsonl, line 1: "),
    ],
)
def test_a_number_that_is_too_long_is_told_at_its_place(plan, here, name, text, place):
    (here / name).write_text(text % ("7" * 5_000))
    told = plan(name, code=1).out.splitlines()[1]
    assert told.startswith(place)
    assert "4300 digits" in told


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode), st.sampled_from(["t.jsonl", "t.csv", "t.plan", "t.json"]))
def test_any_file_is_read_or_refused_in_lines(tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    try:
        told = plan_findings(tmp_path / name).problems
    except ValueError as error:
        told = (str(error),)
    assert not [line for line in told if "\n" in line]
