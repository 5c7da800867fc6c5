"""Names of arms on charts: short, and no two arms of one group share one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.protocol.names import Spec
from whichloop.reports.html.grouping import MAX_CHARS, chart_names

OPTIONS = st.dictionaries(
    st.sampled_from(["max_steps", "parse_retries", "forced_finish", "typed_output"]),
    st.integers(0, 2) | st.booleans() | st.text(max_size=8),
)


def info(loop: str, options: dict[str, object], profile: str = "clean") -> ArmInfo:
    return ArmInfo(f"{Spec(loop, options).label}/{profile}", loop, options, "scripted", profile, "s")


@given(st.lists(st.tuples(st.sampled_from(["bare", "finish"]), OPTIONS), max_size=6))
def test_different_arms_have_different_names(drawn):
    arms = list({made.arm: made for made in (info(*one) for one in drawn)}.values())
    names = chart_names(arms)
    assert list(names) == [arm.arm for arm in arms]
    assert len(set(names.values())) == len(arms)
    for arm in arms:
        whole = arm.arm.removesuffix("/clean")
        assert names[arm.arm] == whole or len(whole) > MAX_CHARS


def test_a_long_name_has_only_the_options_in_which_it_differs():
    shared = {"max_steps": 4, "forced_finish": "off", "typed_output": False}
    arms = [info("finish", shared | {"parse_retries": n}, profile) for profile in ("p", "q") for n in (0, 1)]
    arms.append(info("phased", {"max_rounds": 3, "failed_dependency": "skip"}, "p"))
    assert list(chart_names(arms).values()) == [
        *("finish(parse_retries=0)", "finish(parse_retries=1)") * 2,
        "phased(…)",
    ]


def test_a_name_that_another_arm_has_is_not_taken():
    long = {"max_steps": 4, "forced_finish": "off", "parse_retries": 0}
    arms = [info("finish", long), info("finish", long | {"parse_retries": 1}), info("finish", {"parse_retries": 0})]
    names = chart_names(arms)
    assert len(set(names.values())) == 3


def test_a_program_and_a_model_stay_in_the_name():
    arm = ArmInfo(
        "finish(forced_finish=off, max_steps=4)@best.json/openai/gpt-4o",
        "finish",
        {"max_steps": 4, "forced_finish": "off"},
        "openai/gpt-4o",
        "clean",
        "s",
    )
    assert chart_names([arm]) == {arm.arm: "finish(…)@best.json/openai/gpt-4o"}
