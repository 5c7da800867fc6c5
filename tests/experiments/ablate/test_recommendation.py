"""Which setting an ablation recommends: over generated records, from the effects to the sentence and the screen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.cli.render import answer_of_ablation
from whichloop.experiments.ablate.ablation import Ablation, AblationResult
from whichloop.experiments.ablate.recommendation import ablation_answer_json, recommendation, recommendation_sentences
from whichloop.experiments.ablate.tables import conclusions
from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.factors.factorial import effects
from whichloop.metrics.factors.layout import Factor, layout
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Verdict
from whichloop.protocol.names import parse_values

TASKS = 60
IDLE = "ending never made a difference here"
Levels = tuple[str, ...]
Make = Callable[..., AblationResult]


@pytest.fixture(scope="session")
def ablated(record) -> Make:
    """An ablation of the loop `bare`: functions of a cell's values say which share of tasks it solves, and at how many tokens."""

    def make(
        factors: Mapping[str, Sequence[str]],
        share: Callable[..., float],
        *,
        default: Mapping[str, str] | None = None,
        untried: Mapping[str, str] | None = None,
        forms: bool = False,
        tokens: Callable[..., int] = lambda *cell: 100,
        leave_out: Sequence[Levels] = (),
        profiles: Sequence[str] = ("calm",),
        course: Callable[..., str] = lambda *cell: "",
    ) -> AblationResult:
        cells = [cell for cell in itertools.product(*factors.values()) if cell not in leave_out]
        named = tuple(Factor(name, tuple(levels)) for name, levels in factors.items())
        infos, records, of_arm = [], [], {}
        groups: dict[str, dict[tuple[int, ...], list[Record]]] = {}
        for profile, cell in itertools.product(profiles, cells):
            values = dict(zip(factors, cell, strict=True))
            loop = f"bare({', '.join(f'{name}={value}' for name, value in values.items())})"
            info = ArmInfo(f"{loop}/{profile}", "bare", values, "scripted", profile, "s", values["form"] if forms else "")
            solved = share(*cell) if len(profiles) == 1 else share(profile, *cell)
            own = [
                record(
                    arm=info.arm,
                    task=f"t{task:03}",
                    scores={"accuracy": float((task * 37 % TASKS) < solved * TASKS)},
                    input_tokens=tokens(*cell) + task % 3,
                    output_tokens=0,
                    trace_digest=course(*cell),
                )
                for task in range(TASKS)
            ]
            infos.append(info)
            records += own
            of_arm[info.arm] = {name: parse_values(value)[0] for name, value in values.items()}
            places = tuple(factor.levels.index(value) for factor, value in zip(named, cell, strict=True))
            groups.setdefault(profile, {})[places] = own
        design = layout(named, sorted({cell for group in groups.values() for cell in group}))
        own_values = None if default is None else {name: parse_values(value)[0] for name, value in default.items()}
        made = Ablation("bare", factors, "full", of_arm, own_values, True, ("accuracy", "tokens"), None, 1.0, untried or {})
        run = Results(Path("x"), None, (), compare(records, infos))  # type: ignore[arg-type]  # no manifest is read here
        return AblationResult(run, made, design, effects(groups, design, metrics=("accuracy", "tokens")))

    return make


def first(found: AblationResult) -> str:
    return recommendation_sentences(found)[0]


def test_a_better_value_is_used_and_what_is_undecided_is_left_as_it_is(ablated):
    found = ablated(
        {"retries": ("0", "2", "5"), "ending": ("off", "xml")},
        lambda retries, ending: {"0": 0.3, "2": 0.8, "5": 0.85}[retries],
        tokens=lambda retries, ending: 100 + 10 * int(retries),
        default={"retries": "0", "ending": "off"},
    )
    price = "retries=2 takes 20 more tokens a trial than 0 (+20 %)"
    assert first(found) == f"Use bare(retries=2): retries=2 is better than 0; {price}; undecided against retries=5; {IDLE}"
    assert "would tell retries=2 from retries=5 " in recommendation_sentences(found)[1]
    made = recommendation(found)
    assert made is not None
    assert made.arms == ("bare(retries=2, ending=off)/calm",)
    assert conclusions(found)[0] == first(found)


def test_where_nothing_is_better_the_loop_stays_as_it_is(ablated):
    found = ablated({"ending": ("off", "xml")}, lambda ending: {"off": 0.5, "xml": 0.55}[ending], default={"ending": "off"})
    assert first(found) == "Keep bare as it is: nothing else is shown to be better; undecided against ending=xml"


def test_under_a_profile_without_faults_no_larger_run_is_asked_for(ablated):
    found = ablated({"m": ("x", "y")}, lambda m: 0.9 if m == "x" else 0.95, default={"m": "x"}, profiles=("clean",))
    assert recommendation_sentences(found) == [
        "Keep bare as it is: nothing else is shown to be better; undecided against m=y; "
        "clean disturbs nothing: add --profile flaky-format or flaky-tools"
    ]


def test_an_option_that_changes_nothing_gets_no_recommendation(ablated):
    found = ablated(
        {"retries": ("0", "2"), "ending": ("off", "xml")},
        lambda retries, ending: {"0": 0.3, "2": 0.8}[retries],
        default={"retries": "2", "ending": "off"},
    )
    assert recommendation_sentences(found) == [f"Keep bare as it is: retries=2 is better than 0; {IDLE}"]


def test_on_a_tie_the_loop_s_own_value_stays_though_it_was_not_tried(ablated):
    share = {"off": 0.5, "xml": 0.55}
    found = ablated({"ending": ("off", "xml")}, lambda ending: share[ending], untried={"ending": "both"})
    (said,) = recommendation_sentences(found)
    assert said == ("Keep bare as it is: nothing else is shown to be better; ending=both is the loop's own value and was not tried")
    made = recommendation(found)
    assert made is not None
    assert made.arms == ()
    assert ablation_answer_json(found)["choices"] == [{"factor": "ending", "value": "both", "own": "both"}]


def test_a_value_that_beats_the_others_is_used_though_the_loop_s_own_was_not_tried(ablated):
    found = ablated({"ending": ("off", "xml")}, lambda ending: {"off": 0.2, "xml": 0.9}[ending], untried={"ending": "both"})
    assert first(found) == "Use bare(ending=xml): ending=xml is better than off"


def test_the_answer_as_json_has_what_settings_cost(ablated):
    found = ablated(
        {"ending": ("off", "xml")},
        lambda ending: {"off": 0.9, "xml": 0.3}[ending],
        tokens=lambda ending: {"off": 300, "xml": 120}[ending],
        default={"ending": "off"},
    )
    made = ablation_answer_json(found)
    assert made["recommendation"] == first(found)
    assert made["unit"] == "tokens"
    costs = {loop["loop"]: (round(loop["cost"]["value"]), round(loop["cost_per_solved"])) for loop in made["loops"]}
    assert costs == {"bare(ending=off)": (301, 334), "bare(ending=xml)": (121, 403)}


def test_settings_of_another_form_than_the_profile_s_are_not_recommended(ablated):
    share = {"native": 0.9, "text": 0.2}
    found = ablated({"form": ("native", "text")}, lambda form: share[form], profiles=("text-2024",), forms=True)
    assert recommendation(found) is None
    (said,) = recommendation_sentences(found)
    assert said.startswith("text-2024 was measured of calls in text and does not apply to bare(form=native), which writes native ")
    made = ablation_answer_json(found)
    assert (made["recommendation"], made["sentences"]) == (None, [said])


def test_an_option_that_does_harm_is_kept_off(ablated):
    found = ablated({"ending": ("off", "xml")}, lambda ending: {"off": 0.9, "xml": 0.2}[ending], default={"ending": "off"})
    assert recommendation_sentences(found) == ["Keep bare as it is: ending=off is better than xml"]


def test_a_factor_is_decided_at_the_value_that_it_depends_on(ablated):
    """`extra` helps where errors end the loop, and does harm where they are shown; showing them is what counts most."""
    share = {("end", "on"): 0.5, ("end", "off"): 0.2, ("show", "on"): 0.7, ("show", "off"): 1.0}
    found = ablated({"errors": ("end", "show"), "extra": ("on", "off")}, lambda *cell: share[cell])
    made = recommendation(found)
    assert made is not None
    assert [choice.value for choice in made.choices] == ["show", "off"]
    assert first(found).startswith("Use bare(errors=show, extra=off): errors=show is better than end; extra=off is")


def test_of_values_as_accurate_the_cheaper_is_used(ablated):
    """All tasks are solved; Holm's bounds on 60 tasks reach a margin of 0.02 in no run, so that the verdict is given here."""
    found = ablated(
        {"extra": ("on", "off"), "errors": ("end", "show")},
        lambda extra, errors: 0.9 if errors == "show" else 0.2,
        tokens=lambda extra, errors: 300 if extra == "on" else 100,
        default={"extra": "on", "errors": "show"},
    )
    equal = [
        replace(effect, verdict=Verdict("equivalent", True))
        if effect.term == "extra: on → off" and effect.metric == "accuracy"
        else effect
        for effect in found.effects.effects
    ]
    found = replace(found, effects=replace(found.effects, effects=tuple(equal)))
    price = "extra=off takes 200 fewer tokens a trial than on (-66 %)"
    assert (
        first(found) == f"Use bare(extra=off): extra=off is as accurate as on, and cheaper; errors=show is better than end; {price}"
    )


def test_a_value_that_is_better_under_one_profile_only_is_left_alone(ablated):
    share = {("calm", "a"): 0.9, ("calm", "b"): 0.2, ("rough", "a"): 0.2, ("rough", "b"): 0.9}
    found = ablated({"mode": ("a", "b")}, lambda *at: share[at], default={"mode": "a"}, profiles=("calm", "rough"))
    assert first(found) == "Keep bare as it is: mode=a is better than b under some profile, and worse under another"


def test_a_setting_that_a_fraction_did_not_run_is_said_to_be_untried(ablated):
    found = ablated(
        {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")},
        lambda *cell: 0.1 + 0.28 * cell.count("1"),
        leave_out=[("1", "1", "1")],
        default={"a": "0", "b": "0", "c": "0"},
    )
    made = recommendation(found)
    assert made is not None
    assert (made.arms, [choice.value for choice in made.choices]) == ((), ["1", "1", "1"])
    assert recommendation_sentences(found)[1].startswith("This fraction did not run just these values")


@settings(max_examples=cases(10))
@given(st.lists(st.floats(0, 1), min_size=6, max_size=6), st.lists(st.integers(1, 500), min_size=6, max_size=6))
def test_no_value_is_used_that_another_is_shown_to_beat(ablated, shares, tokens):
    """Beside the law, the screen holds every setting once, and no line is wider than the terminal."""
    cells = list(itertools.product("012", "xy"))
    found = ablated(
        {"n": ("0", "1", "2"), "m": ("x", "y")},
        lambda *cell: shares[cells.index(cell)],
        tokens=lambda *cell: tokens[cells.index(cell)],
    )
    made = recommendation(found)
    assert made is not None
    shown = {(effect.metric, effect.kind) for effect in found.effects.effects if effect.verdict.word in ("better", "worse")}
    if ("accuracy", "interaction") not in shown:
        words = {effect.term: effect.verdict.word for effect in found.effects.effects if effect.metric == "accuracy"}
        for choice in made.choices:
            for term, word in words.items():
                assert not (word == "better" and term.startswith(f"{choice.factor}: {choice.value} → ") and "×" not in term)
                assert not (word == "worse" and term == f"{choice.factor}: {term[-1]} → {choice.value}")
    (used,) = made.arms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "title", "title")
        patch.setattr("whichloop.cli.render_answer.deciding_command", lambda manifest, decides: ())
        lines = [line.plain for line in answer_of_ablation(found, 80)]
    rows = lines[2:8]
    assert sum(" use " in row for row in rows) == 1
    assert sorted(tuple(row.split()[:2]) for row in rows) == sorted(cells)
    assert max(map(len, lines)) <= 80
    assert used in found.ablation.cells


def test_under_a_measured_profile_the_answer_begins_with_what_its_rates_rest_on(ablated):
    found = ablated(
        {"style": ("a", "b")},
        lambda style: {"a": 0.3, "b": 0.9}[style],
        default={"style": "a"},
        tokens=lambda style: {"a": 100, "b": 150}[style],
        profiles=("text-2024",),
    )
    made = recommendation(found)
    assert made is not None
    before, verdict = made.sentences
    assert (before.is_basis, verdict.is_basis) == (True, False)
    assert before.text.startswith(
        "text-2024 holds means over models, and some of its rates come from few of them (text-2024: wire."
    )
    assert before.text.endswith("add --profile text-2024-median to see what holds for the median model")
    price = "style=b takes 50 more tokens a trial than a (+50 %)"
    assert verdict.text == f"Use bare(style=b): style=b is better than a; {price}"
    assert ablation_answer_json(found)["recommendation"] == verdict.text
    assert recommendation_sentences(found) == [before.text, verdict.text]


def test_a_price_is_told_for_each_profile_and_only_where_costs_are_told_apart(ablated):
    shares = {"a": 0.3, "b": 0.9}
    both = ablated(
        {"m": ("a", "b")}, lambda _, m: shares[m], default={"m": "a"}, tokens=lambda m: {"a": 100, "b": 90}[m], profiles=("x", "y")
    )
    assert "m=b takes 10 fewer tokens a trial than a (-10 %) under x, 10 fewer tokens a trial than a (-10 %) under y" in first(both)
    alike = ablated({"m": ("a", "b")}, lambda m: shares[m], default={"m": "a"})
    assert first(alike) == "Use bare(m=b): m=b is better than a"


def test_a_run_is_proposed_only_where_the_values_differed_in_some_trial(ablated):
    """With form=native the fences make no difference in any trial: there no run would tell their values apart."""
    share = {("json", "refuse"): 0.8, ("json", "read"): 0.85}
    found = ablated(
        {"form": ("json", "native"), "fences": ("refuse", "read")},
        lambda form, fences: share.get((form, fences), 1.0),
        default={"form": "json", "fences": "refuse"},
        course=lambda form, fences: form if form == "native" else f"{form} {fences}",
    )
    lines = recommendation_sentences(found)
    assert lines[0].startswith("Use bare(form=native): form=native is better than json")
    assert "undecided against fences" not in lines[0]
    told = next(line for line in lines if line.startswith("fences made"))
    assert told.startswith(
        "fences made no difference in any of 60 pairs of trials with form=native; with form=json read minus refuse is 0.0"
    )
    assert told.endswith(" on 60 tasks")
    (run,) = [each for each in (recommendation(found) or pytest.fail("no recommendation")).sentences if each.decides]
    assert " with form=json would " in run.text
    assert run.decides is not None
    assert all("form=json" in arm for arm in run.decides.arms)


@settings(max_examples=cases(12))
@given(st.lists(st.sampled_from([0.2, 0.5, 0.8, 0.9]), min_size=4, max_size=4), st.lists(st.booleans(), min_size=2, max_size=2))
def test_no_run_compares_settings_that_did_the_same_in_every_trial(ablated, shares, still):
    """Whatever the shares, and whichever values of one factor leave the other one without effect."""
    cells = list(itertools.product(("x", "y"), ("u", "v")))
    share = dict(zip(cells, shares, strict=True))
    frozen = {level for level, is_still in zip(("x", "y"), still, strict=True) if is_still}
    found = ablated(
        {"m": ("x", "y"), "k": ("u", "v")},
        lambda m, k: share[m, "u" if m in frozen else k],
        default={"m": "x", "k": "u"},
        course=lambda m, k: f"{m}{'' if m in frozen else k}",
    )
    made = recommendation(found)
    assert made is not None
    same = {frozenset(names) for names in found.results.comparison.same}
    assert not any(frozenset(each.decides.arms) in same for each in made.sentences if each.decides)
    assert sum(each.text.startswith("k made no difference in any of 60 pairs") for each in made.sentences) == (len(frozen) == 1)
