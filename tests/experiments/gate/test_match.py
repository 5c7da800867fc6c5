"""What is compared with what: decided by what a trial sees; and what else differs is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import ALL, ARM, changed, of_arms, of_suite, reason
from whichloop.experiments.gate import Baseline, Incomparable, bless, judge
from whichloop.experiments.gate.match import match
from whichloop.runs.manifest import Manifest, TaskDigests

RUN = Path("runs/r")
DIGESTS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"))


def of_digests(found: Manifest, **digests: Any) -> Manifest:
    assert found.task_digests is not None
    return found.model_copy(update={"task_digests": found.task_digests.model_copy(update=digests)})


def of_files(found: Manifest, **files: str) -> Manifest:
    return found.model_copy(update={"suite": found.suite.model_copy(update={"files": files})})


@given(was=DIGESTS, now=DIGESTS)
def test_each_task_is_the_same_or_changed_or_on_one_side_alone(wind, baseline, was, now):
    before = baseline.model_copy(update={"asked": TaskDigests(shared="s", tasks=was)})
    found = of_digests(wind.manifest, shared="s", tasks=now)
    same = frozenset(name for name in was if was[name] == now.get(name))
    if not same:
        with pytest.raises(Incomparable, match="no task is the same as in the baseline"):
            match(RUN, found, before)
        return
    matched = match(RUN, found, before)
    if was == now:
        assert (matched.same, matched.others) == (None, {})
    else:
        assert matched.same == same
        assert matched.others == {
            "same": len(same),
            "changed": len(was.keys() & now.keys() - same),
            "added": len(now.keys() - was.keys()),
            "removed": len(was.keys() - now.keys()),
            "first": ", ".join(sorted((was.keys() | now.keys()) - same)[:4]),
        }


def test_another_source_of_the_tools_is_judged_and_named(wind, baseline):
    results = dict.fromkeys(ALL, "r")
    before = of_suite(baseline, files={"my_tools.py": "a", "same.py": "s"})
    asked = wind.manifest.task_digests.model_copy(update={"results": results})
    before = before.model_copy(update={"asked": asked})
    now = of_files(of_digests(wind.manifest, results=results), **{"my_tools.py": "b", "same.py": "s"})
    judged = judge(changed(wind, suite=now.suite, task_digests=now.task_digests), before)
    assert (judged.outcome, judged.changed) == ("pass", {"files": ["my_tools.py"]})
    other = of_digests(now, results={**results, ALL[0]: "x"})
    judged = judge(changed(wind, suite=other.suite, task_digests=other.task_digests), before)
    assert (judged.outcome, reason(judged, "tasks_changed").numbers["changed"], judged.judged_tasks) == ("undecided", 1, 11)
    unknown = of_digests(now, results={})
    assert match(RUN, unknown, before).same is None, "of tools that are slow, or draw at random, no result is known"


def test_real_suites_differ_by_what_a_trial_sees_of_them(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    tools = 'def price(item: str) -> float:\n    """The price of an item."""\n    return 2.0\n\nTOOLS = [price]\n'
    plan = '{"calls": [{"id": "p", "tool": "price", "arguments": {"item": "tea"}, "goal": "g"}], "answer": {"$ref": "p"}}'
    rows = [f'{{"id": "t{n}", "question": "What is it, {n}?", "answer": 2.0, "plan": {plan}}}' for n in range(3)]

    def manifest(number: int, tools: str = tools, rows: list[str] = rows) -> Any:
        name = f"own_tools_{number}"
        Path(f"{name}.py").write_text(tools)
        Path("rows.jsonl").write_text("\n".join(rows))
        return ran(loops=("bare",), profiles=("clean",), suite="jsonl", data=Path("rows.jsonl"), tools=name)

    before = bless(manifest(0))

    def matched(number: int, **changes: Any) -> Mapping[str, int] | str:
        try:
            return match(RUN, manifest(number, **changes).manifest, before).others
        except Incomparable as error:
            return str(error)

    assert matched(1, tools=f"{tools}# a comment\n") == {}
    one_changed = {"same": 2, "changed": 1, "first": "t0", "added": 0, "removed": 0}
    assert matched(3, rows=[rows[0].replace("What is", "Which is"), *rows[1:]]) == one_changed
    assert "the tools (names, schemas, descriptions)" in str(matched(5, tools=tools.replace("The price", "A price")))


def with_config(found: Baseline, **config: Any) -> Baseline:
    return found.model_copy(update={"config": {**found.config, **config}})


@pytest.mark.parametrize(
    ("before", "named"),
    [
        (lambda found: of_suite(found, name="events"), "suite than in the baseline: arithmetic, not events"),
        (lambda found: of_suite(found, max_tool_steps=3), "step limit than in the baseline: 21, not 3"),
        (lambda found: found.model_copy(update={"profiles": {**found.profiles, "flaky-tools": "f" * 64}}), "profile flaky-tools"),
        (lambda found: found.model_copy(update={"versions": {**found.versions, "policy_and_profiles": 1}}), "policy_and_profiles"),
        (lambda found: with_config(found, trial_budget={"tokens": 2000}), "limit of a trial"),
        (lambda found: of_suite(found, digest="0" * 64).model_copy(update={"asked": None}), "digest of the suite"),
    ],
)
def test_what_a_trial_meets_otherwise_is_refused_in_one_line(wind, baseline, before, named):
    with pytest.raises(Incomparable) as said:
        judge(wind, before(baseline))
    assert str(said.value).startswith(f"{wind.folder}: another ")
    assert named in str(said.value)
    assert "\n" not in str(said.value)


def test_an_arm_that_the_run_lacks_is_refused_and_a_single_loop_under_the_same_conditions_is_the_counterpart(baseline, ran):
    with pytest.raises(Incomparable, match=r"the run has no arm for finish/clean, finish/flaky-tools of the baseline"):
        judge(ran(loops=("bare", "react_extract")), baseline)
    was = bless(ran(loops=("finish",)))
    judged = judge(ran(loops=("finish(parse_retries=0)",)), was)
    assert {line.arm for line in judged.lines} == {"finish(parse_retries=0)/clean", "finish(parse_retries=0)/flaky-tools"}
    assert judged.changed == {"loop": ["parse_retries 2 → 0"]}
    assert judge(ran(loops=("bare",)), was).changed == {"loop": ["finish → bare"]}


def test_versions_files_and_options_that_differ_are_told(wind, baseline):
    packages = {name: version for name, version in baseline.packages.items() if name != "numpy"} | {"gone": "1", "dspy": "0"}
    before = of_arms(baseline, files={"my_loop.py": "0"}, configuration="Bare(words='" + "x" * 350 + "')")
    judged = judge(wind, of_suite(before, version="0").model_copy(update={"packages": packages}))
    told = judged.changed
    assert told["files"] == ["my_loop.py"]
    assert f"suite 0 → {wind.manifest.suite.version}" in told["versions"]
    assert {text.split(" ")[0] for text in told["versions"]} == {"suite", "numpy", "gone", "dspy"}
    assert any(text.startswith("numpy – → ") for text in told["versions"])
    assert any(text.startswith("words ") and len(text) < 120 for text in told["loop"])


def test_no_secret_of_a_configuration_is_kept_or_told(wind):
    key = "sk-proj-0123456789abcdef0123"
    arms = tuple(arm.model_copy(update={"configuration": f"Bare(key={key!r}, words='a')"}) for arm in wind.manifest.arms)
    was = bless(changed(wind, arms=arms))
    assert key not in was.model_dump_json()
    judged = judge(wind, was)
    assert "words a → –" in judged.changed["loop"]
    assert key not in str(judged.to_json())
    assert judged.lines[0].arm == ARM


def test_other_tools_and_another_price_are_refused_and_the_name_of_the_priced_model_is_no_matter(wind, baseline):
    with pytest.raises(Incomparable, match=rf"^{RUN}: the tools .* are others; bless anew"):
        match(RUN, of_digests(wind.manifest, shared="other"), baseline)
    priced = changed(wind, config=wind.manifest.config | {"price": "openai/m=1/4"})
    assert judge(priced, with_config(baseline, price="1/4")).outcome == judge(priced, baseline).outcome == "pass"
    with pytest.raises(Incomparable, match="another price of tokens than in the baseline: 1/4, not 1/5"):
        judge(priced, with_config(baseline, price="1/5"))
