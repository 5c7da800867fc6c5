"""The answer of a comparison: laws over generated records, then the sentences one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.cli.render_answer import MAX_LINES, MIN_ROWS, answer_lines
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run as carry_out
from whichloop.experiments.compare.tables import comparison_tables
from whichloop.experiments.compare.verdict_old.answer import ComparisonAnswer, answer
from whichloop.experiments.compare.verdict_old.matrix import places
from whichloop.experiments.compare.verdict_old.sentence import AnswerSentence
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.statistics import Interval, chance_again, is_narrow
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.output import terminal_safe

SHARES = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=5)


@settings(max_examples=cases(12))
@given(SHARES, st.lists(st.integers(1, 1_000), min_size=6, max_size=6))
def test_the_matrix_has_every_arm_once_and_the_best_stand_first(compared, shares, tokens):
    comparison = compared(shares, dict(zip("abcdef", tokens, strict=True)), n=20)
    made = answer(comparison)
    shown = [cell.arm.info.arm for row in made.rows for cell in row.cells if cell is not None]
    assert sorted(shown) == sorted(arm.info.arm for arm in comparison.arms)
    means = [row.accuracy for row in made.rows]
    assert means == sorted(means, reverse=True)
    for number in range(len(made.columns)):
        cells = [cell for row in made.rows if (cell := row.cells[number]) is not None]
        accuracies = [mean.value for cell in cells if (mean := cell.arm.summary.accuracy) is not None]
        for cell, accuracy in zip(cells, accuracies, strict=True):
            assert (cell.place == "highest") == (len(cells) > 1 and accuracy == max(accuracies))


@settings(max_examples=cases(12))
@given(SHARES, st.lists(st.integers(1, 1_000), min_size=6, max_size=6))
def test_no_loop_is_named_that_another_is_shown_to_be_better_than(compared, shares, tokens):
    comparison = compared(shares, dict(zip("abcdef", tokens, strict=True)), n=20)
    made = answer(comparison)
    if not made.sentences or not made.sentences[0].startswith("Adopt"):
        return
    named = made.sentences[0].removeprefix("Adopt ").split(":")[0].split(", narrowly")[0].split(" or ")
    for loop in (name.split(" ")[0] for name in named):
        (row,) = [row for row in made.rows if row.loop == loop]
        assert all(cell is not None and cell.place != "lower" for cell in row.cells)
        rivals = [each for each in made.rows if all(cell is not None and cell.place != "lower" for cell in each.cells)]
        costs = {each.loop: each.cost.value for each in rivals if each.cost is not None}
        cheaper = [each for each in rivals if costs[each.loop] <= costs[row.loop] and each is not row]
        assert all(each.accuracy <= row.accuracy for each in cheaper)


def said(comparison: Comparison) -> list[str]:
    return list(answer(comparison).sentences)


def test_a_loop_that_wins_everywhere_is_adopted(compared):
    first, together, worse = said(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)}))
    assert together.startswith("Over both profiles together good is better than bad (0.500 [0.")
    assert first == "Adopt good (101 tokens a trial): better than every other loop under every profile"
    assert worse == "Worse: bad everywhere"


def test_of_loops_as_accurate_the_cheaper_is_adopted(compared):
    lines = said(compared({"dear": (0.9, 0.9), "cheap": (0.9, 0.9), "bad": (0.2, 0.2)}, {"dear": 300, "cheap": 100, "bad": 10}))
    assert lines[0] == (
        "Adopt cheap (101 tokens a trial): no loop is shown to beat it under any profile, and none of its equals is cheaper: "
        "dear takes 301 tokens a trial; bad is cheaper (11 tokens a trial against 101)"
    )
    assert lines[1] == "Over both profiles together dear is undecided against cheap (0.000 [-0.047, 0.047]), better than bad"
    assert re.fullmatch(
        r"Undecided between cheap and dear: [\d,]+ tasks under (calm|rough) would decide, most likely as equivalent within 0.02 "
        r"\(chance about \d\d %\)",
        lines[2],
    )
    assert lines[3] == "Worse: bad everywhere"


def test_of_two_that_neither_accuracy_nor_cost_tells_apart_chance_names_none(compared):
    shares = {"a": (0.85, 0.85), "b": (0.84, 0.85), "bad": (0.1, 0.1)}
    first = said(compared(shares, {"a": 100, "b": 100, "bad": 300}))[0]
    both = "no loop is shown to beat them under any profile, and neither accuracy nor cost tells them apart"
    assert first == f"Nothing is decided between a (101 tokens a trial) and b (101): {both}"
    assert said(compared(shares, {"a": 100, "b": 200, "bad": 300}))[0].startswith("Adopt a (101 tokens a trial): no loop")
    further = {"a": (0.85, 0.85), "b": (0.82, 0.85), "bad": (0.1, 0.1)}
    assert said(compared(further, {"a": 100, "b": 100, "bad": 300}))[0].startswith(
        "Nothing is decided between a (101 tokens a trial)"
    )


def test_a_dearer_loop_that_may_be_better_is_named_with_what_would_decide(compared):
    lines = said(compared({"dear": (0.92, 0.9), "cheap": (0.88, 0.86), "bad": (0.2, 0.2)}, {"dear": 300, "cheap": 100}))
    named = "Adopt cheap (101 tokens a trial) or dear (301)"
    assert lines[0] == f"{named}: no loop is shown to beat them under any profile, and cheap is the cheaper"
    assert lines[1].startswith("Over both profiles together dear is ")
    assert lines[-1] == "Worse: bad everywhere"


def test_where_each_profile_has_its_own_best_no_loop_is_adopted(compared):
    first, together, worse = said(compared({"a": (0.9, 0.3), "b": (0.3, 0.9)}))
    assert together.startswith("Over both profiles together a is undecided against b (0.000 [-0.")
    leads = "a leads under calm; b leads under rough; they cost the same (101 tokens a trial)"
    assert first == f"No loop is among the best under every profile: {leads}"
    assert worse == "Worse: a under rough; b under calm"


def test_among_more_than_two_loops_the_sentence_names_the_pair_that_a_run_would_decide(compared):
    shares = {"a": (0.85, 0.85), "b": (0.8, 0.8), "c": (0.82, 0.82), "bad": (0.1, 0.1)}
    told = next(line for line in said(compared(shares, {"a": 100, "b": 100, "c": 100})) if line.startswith("Undecided"))
    assert re.fullmatch(
        r"Undecided among a, c and b: [\d,]+ tasks under (calm|rough) would (tell a from|decide between a and) (b|c)"
        r"(, most likely as equivalent within 0.02)? "
        r"\(chance about \d\d %\)",
        told,
    )


@pytest.mark.parametrize(("low", "narrowly"), [(0.0001, True), (0.0119, True), (0.0121, False), (0.06, False)])
def test_a_verdict_that_is_close_is_said_to_be_narrow(compared, low, narrowly):
    """An interval 0.12 wide is narrow up to an end of 0.012."""
    found = compared({"good": (0.9,), "bad": (0.4,)})
    moved = Interval(low + 0.06, low, low + 0.12, 100)
    pairs = tuple(replace(pair, difference=moved) if pair.metric == "accuracy" else pair for pair in found.pairs)
    said_of_it = said(replace(found, pairs=pairs))[0]
    close = ", narrowly (by 0." if narrowly else ": better"
    assert said_of_it.startswith(f"Adopt good (101 tokens a trial){close}")
    assert said_of_it.endswith(": better than every other loop")


def test_a_lead_over_all_profiles_that_is_narrow_decides_nothing(compared):
    """The headline is that of a run without such a lead, which a fresh run may well be; the lead is told with its chance."""
    shares = {"a": (0.8, 0.8), "b": (0.7, 0.7), "bad": (0.1, 0.1)}
    costs = {"a": 300, "b": 100, "bad": 10}
    found, apart = compared(shares, costs, n=30), compared({**shares, "a": (0.9, 0.9), "b": (0.4, 0.4)}, costs, n=30)
    close = replace(apart, pooled=[replace(pair, difference=Interval(0.061, 0.001, 0.121, 30)) for pair in apart.pooled])
    clear, narrow, none = (said(replace(found, pooled=pooled)) for pooled in (apart.pooled, close.pooled, ()))
    assert clear[0].startswith("Adopt a: over both profiles together it is better than every other loop")
    assert narrow[0] == none[0]
    assert narrow[0].startswith("Adopt b (101 tokens a trial) or a (301): no loop is shown to beat them under any profile")
    lead = "Over both profiles together a is narrowly better than every other loop, the next being"
    assert narrow[1].startswith(lead)
    assert narrow[1].endswith(
        "(0.061 [0.001, 0.121]); chance that a fresh run shows it again, if this is the true difference: about 50 %"
    )
    assert any(line.startswith("Undecided between a and b: ") for line in narrow)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_only_a_difference_that_is_shown_can_be_narrow_and_either_way_round(value, below, above):
    difference = Interval(value, value - below, value + above, 100)
    assert is_narrow(difference) == is_narrow(difference.turned)
    if is_narrow(difference):
        assert difference.low > 0 or difference.high < 0


@given(st.floats(0.001, 0.5), st.floats(0, 0.3))
def test_a_fresh_run_repeats_a_narrow_verdict_in_two_cases_of_three_at_most(error, beyond):
    """By the normal law at 0.05, the estimate being true: the claim of docs/statistics.md."""
    value = (1 + beyond) * NormalDist().inv_cdf(0.975) * error
    half = NormalDist().inv_cdf(0.975) * error
    again = NormalDist().cdf((value - half) / error)
    assert is_narrow(Interval(value, value - half, value + half, 100)) == (0.5 < again < NormalDist().cdf(0.2 * half / error))
    assert chance_again(Interval(value, value - half, value + half, 100)) == pytest.approx(again)


def test_where_nothing_is_decided_nothing_is_adopted(compared):
    lines = said(compared({"a": (0.5,), "b": (0.6,)}, {"a": 100, "b": 100}, n=10))
    assert lines[0] == "Nothing is decided: no loop is told apart from another; they cost the same (101 tokens a trial)"
    assert lines[1] == "b minus a: 0.100 [-0.208, 0.445] in accuracy, paired over 10 common tasks (p = 1.000)"
    assert lines[2].startswith("Undecided between b and a")


def test_a_size_says_how_often_each_task_runs(compared):
    found = compared({"a": (0.5,), "b": (0.6,)}, n=30)
    often = [pair if pair.outlook is None else replace(pair, outlook=replace(pair.outlook, repeats=20)) for pair in found.pairs]
    for pairs, written in ((found.pairs, r"[\d,]+ tasks"), (often, r"[\d,]+ tasks × 20")):
        asked = replace(found, pairs=tuple(pairs))
        assert any(re.search(rf"^Undecided between b and a: {written} would decide", line) for line in said(asked))
        assert re.search(
            rf"{written} \(", " ".join(cell for table in comparison_tables(asked) for row in table.rows for cell in row)
        )


def test_the_brief_difference_of_two_arms_keeps_that_it_is_paired_and_its_p(compared):
    (brief,) = (
        each.brief for each in answer(compared({"a": (0.5,), "b": (0.6,)}, n=10)).answer_sentences if " minus " in each.text
    )
    assert brief == "b minus a: 0.100 [-0.208, 0.445], paired over 10 common tasks (p = 1.000)"


def test_what_no_profile_tells_by_itself_and_all_together_do_is_the_pick(compared):
    dear = {"a": 300, "b": 100}
    close, apart = compared({"a": (0.8, 0.8), "b": (0.7, 0.7)}, dear, n=30), compared({"a": (0.9, 0.9), "b": (0.4, 0.4)}, n=30)
    first, *confirming = said(replace(close, pooled=apart.pooled))
    assert len(confirming) == 1
    confirms = (
        r"To confirm that a is better than b: [\d,]+ tasks under (calm|rough) would tell the two apart \(chance about \d\d %\)"
    )
    assert re.fullmatch(confirms, confirming[0])
    assert re.fullmatch(
        r"Adopt a: over both profiles together it is better than b by 0\.500 \[0\.\d+, 0\.\d+\]; "
        r"b is cheaper \(101 tokens a trial against 301\), and no single profile tells the two apart",
        first,
    )
    many = compared({"a": (0.8, 0.8), "b": (0.7, 0.7), "c": (0.7, 0.7)}, dear, n=30)
    pooled = compared({"a": (0.9, 0.9), "b": (0.4, 0.4), "c": (0.4, 0.4)}, n=30).pooled
    assert said(replace(many, pooled=pooled))[0].endswith("tells the two apart (with the corrections for 3 loops)")


def test_a_loop_that_a_profile_tells_to_be_worse_is_no_pick(compared):
    """Over both profiles together it may be the best: what it loses under one of them is not made up for."""
    apart = compared({"a": (0.9, 0.9), "b": (0.3, 0.3)}, n=60)
    lines = said(replace(compared({"a": (0.9, 0.5), "b": (0.3, 0.9)}, n=60), pooled=apart.pooled))
    assert not any(line.startswith("Adopt") for line in lines)


def test_of_equals_none_is_called_the_cheapest(compared):
    told = "Nothing is decided: no loop is told apart from another; "
    same = said(compared({"a": (0.5,), "b": (0.6,)}, {"a": 100, "b": 100}, n=10))
    assert same[0] == f"{told}they cost the same (101 tokens a trial)"
    two = said(compared({"a": (0.5,), "b": (0.6,), "c": (0.5,)}, {"a": 100, "b": 200, "c": 100}, n=10))
    assert two[0] == f"{told}the cheapest are a and c (101 tokens a trial)"


def test_one_loop_and_an_invalid_run_have_no_sentences(compared):
    assert said(compared({"a": (0.5, 0.5)})) == []
    invalid = answer(replace(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)}), invalid=True))
    assert invalid.sentences == ()
    assert {cell.place for row in invalid.rows for cell in row.cells if cell is not None} == {None}


def test_over_all_profiles_every_other_loop_is_said_only_where_all_of_them_met_all(compared):
    shares = {"an": (0.9, 0.9), "b": (0.4, 0.4), "c": (0.2, 0.2)}
    assert any(
        line.startswith("Over both profiles together an is better than every other loop, the next")
        for line in said(compared(shares))
    )
    fewer = said(compared(shares | {"c": (0.2,)}))
    assert any(line.startswith("Over both profiles together an is better than b (0.500 ") for line in fewer)


def test_a_loop_that_is_not_shown_to_be_worse_and_yet_not_named_is_told_why(compared):
    tokens = {"cheap": 100, "good": 300, "between": 310, "bad": 100}
    made = answer(compared({"cheap": (0.8,), "good": (0.85,), "between": (0.82,), "bad": (0.1,)}, tokens))
    adoption, left_out = made.answer_sentences[:2]
    assert adoption.loops == ("cheap", "good")
    assert left_out.text.startswith(
        "between is not shown to be worse either, but by the means another loop is at least as accurate"
    )
    assert left_out.may_be_left_out


def test_a_loop_that_did_not_run_under_a_profile_has_no_cell_there(compared):
    made = answer(compared({"a": (0.9, 0.9), "b": (0.3,)}))
    assert [[cell is not None for cell in row.cells] for row in made.rows] == [[True, True], [True, False]]


def test_many_losers_are_counted(compared):
    shares = {"best": (1.0, 1.0)} | {f"loop{n}": (0.1, 0.1) for n in range(7)}
    assert said(compared(shares))[-1] == "Worse: loop0, loop1, loop2 and 4 others everywhere"


def test_places_hold_only_arms_that_a_pair_compares(compared):
    comparison = compared({"a": (0.9,)})
    (arm,) = comparison.arms
    assert places({arm.info.arm: arm.summary.accuracy}, comparison.pairs) == {}


@pytest.mark.parametrize(
    ("profiles", "ends"),
    [
        (("flaky-format",), "a stress test, and none of its equals is cheaper: b takes 301 tokens a trial"),
        (("flaky-format", "flaky-tools"), "any stress test, and none of its equals is cheaper: b takes 301 tokens a trial"),
        (("native-2024", "flaky-tools"), "any profile, and none of its equals is cheaper: b takes 301 tokens a trial"),
        (("clean",), "; clean disturbs nothing: add --profile flaky-format or --profile flaky-tools"),
    ],
)
def test_an_answer_says_what_kind_of_air_it_comes_from(compared, profiles, ends):
    shares = (
        {"a": (0.9, 0.9), "b": (0.9, 0.9), "c": (0.9, 0.9)}
        if profiles == ("clean",)
        else {"a": (0.9, 0.9), "b": (0.9, 0.9), "c": (0.2, 0.2)}
    )
    tokens = {"a": 100, "b": 300, "c": 100}
    first = said(compared({loop: by[: len(profiles)] for loop, by in shares.items()}, tokens, profiles=profiles))[0]
    assert first.endswith(ends)


# --- on the terminal ---


@pytest.fixture(scope="module")
def wind(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish", "phased", "react_extract", "stateless"),
        profiles=("flaky-format", "flaky-tools"),
        tasks=24,
        runs=tmp_path_factory.mktemp("runs"),
        mlflow=False,
    )
    experiment = prepare(config)
    carry_out(experiment, Unwatched())
    return results(experiment.folder)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_comparison_of_five_loops_ends_in_about_twelve_lines(wind, width):
    lines = [line.plain for line in answer_lines(wind, width)]
    assert len(lines) <= MAX_LINES == 12
    assert re.search(r"tasks under \S+ would tell \S+ from \S+ \(chance \d\d %\)[:.]", " ".join(lines))
    assert max(len(line) for line in lines if not line.startswith("The rest: ")) <= width  # a folder may be longer
    assert all(line == line.rstrip() for line in lines)
    for arm in wind.comparison.arms:
        assert any(line.startswith(arm.info.loop) for line in lines)
    assert sum(line.count(" *") for line in lines[2:7]) >= 2


@pytest.mark.parametrize(("loops", "profiles"), [(2, 2), (5, 2), (7, 3), pytest.param(12, 3, marks=pytest.mark.slow)])
def test_an_answer_has_at_most_twelve_lines_and_the_verdict_is_among_them(compared, tmp_path, loops, profiles):
    names = [f"bare(max_consecutive_errors={n}, max_steps=8)" if n % 2 else f"loop{n}" for n in range(loops)]
    shares = {name: [0.9 - 0.04 * n - 0.1 * at for at in range(profiles)] for n, name in enumerate(names)}
    made = answer(comparison := compared(shares, n=60, profiles=[f"flaky-{at}" for at in range(profiles)]))
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=60), settings=SimpleNamespace(repeats=1))
    found = Results(tmp_path / "run", manifest, (), comparison)  # type: ignore[arg-type]
    verdict = next(each for each in made.answer_sentences if not each.is_basis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "answer", made)
        patch.setattr(Results, "title", "arithmetic 2: 60 tasks × 1, seed 0")
        patch.setattr("whichloop.cli.render_answer.deciding_command", lambda manifest, run: ("whichloop", "compare", *run.arms))
        lines = [line.plain for line in answer_lines(found, 80)]
    assert len(lines) <= MAX_LINES == 12
    flowing = " ".join(lines)
    assert any(form in flowing for form in (verdict.text, verdict.brief, verdict.briefest) if form)
    assert lines[2].split("  ")[0].replace("…", "")[:4] == made.rows[0].loop[:4]
    assert (lines[-1] == f"The rest: whichloop report {tmp_path / 'run'} -v") == (loops >= 5)


def test_the_matrix_fits_narrow_terminals_by_saying_less(wind):
    narrow = [line.plain for line in answer_lines(wind, 40)]
    assert not any("tokens a trial" in line or "[" in line for line in narrow[:5])


def test_costs_stay_where_heads_can_be_folded_and_the_middle_of_a_name_left_out(wind):
    made = answer(wind.comparison)
    rows = tuple(replace(row, loop=f"{row.loop}(decision_format=native)") for row in made.rows)
    wide = replace(made, rows=rows, columns=tuple(replace(each, profile=f"{each.profile}-median") for each in made.columns))
    lines = _with_answer(wind, replace(wide, answer_sentences=made.answer_sentences[:1]), width=78)
    first = next(number for number, line in enumerate(lines) if line.startswith("loop "))
    heads, cells = lines[first : first + 2], lines[first + 2 : first + 7]
    assert "tokens" in heads[0]
    assert heads[1].split() == ["median", "median"]
    assert all(re.search(r"native\).*\[.*\[.*\d,\d{3}$", line) for line in cells)
    assert any("…" in line for line in cells)


def test_into_a_pipe_cells_stand_between_tabs_with_their_whole_intervals(wind):
    lines = [line.plain for line in answer_lines(wind, 10_000)]
    rows = [line.split("\t") for line in lines if "\t" in line]
    assert rows[0] == ["loop", "flaky-format", "flaky-tools", "tokens a trial"]
    assert {len(row) for row in rows} == {4}
    assert len(rows) == 6
    best = answer(wind.comparison).rows[0]
    assert best.cells[0] is not None
    accuracy = best.cells[0].arm.summary.accuracy
    assert accuracy is not None
    assert rows[1][1].startswith(f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}]")


def test_long_names_stand_above_their_intervals(wind):
    made = answer(wind.comparison)
    rows = tuple(replace(made.rows[n], loop=f"{made.rows[n].loop}({'option=1, ' * 8})") for n in range(2))
    lines = _with_answer(wind, replace(made, rows=rows, answer_sentences=made.answer_sentences[:1]))
    assert len(lines) <= MAX_LINES
    for row in rows:
        place = lines.index(row.loop)
        assert lines[place + 1].count("[") == 3


def test_what_the_matrix_shows_gives_way_to_the_rows(wind):
    made = answer(wind.comparison)
    worse = f"Worse: {', '.join(f'loop{n} under flaky-tools' for n in range(12))}"
    lines = _with_answer(
        wind, replace(made, answer_sentences=(*made.answer_sentences[:1], AnswerSentence(worse, may_be_left_out=True)))
    )
    assert all(any(line.startswith(row.loop) for line in lines) for row in made.rows)
    assert not any(line.startswith("Worse") for line in lines)


def test_loops_without_room_are_counted(wind):
    many = answer(wind.comparison)
    best, last = many.rows[:2]
    rows = (best, replace(last, loop="worst"), *(replace(last, loop=f"loop{n}") for n in range(37)), replace(best, loop="tie"))
    found = _with_answer(wind, replace(many, rows=rows))
    shown = [line for line in found if "[" in line]
    hidden = len(rows) - len(shown)
    assert MIN_ROWS <= len(shown) < len(found) <= MAX_LINES
    assert (
        f"and {hidden} more loops, none more accurate on average than the first, {hidden} not told apart from the best"
        in " ".join(found)
    )
    assert found[-1].startswith("The rest: whichloop report ")


@pytest.mark.parametrize("width", [30, 60, 80])
def test_up_to_five_loops_are_all_shown_however_long_their_names(wind, width):
    made = answer(wind.comparison)
    rows = tuple(replace(made.rows[n % 5], loop=f"finish({'option=1, ' * 9}last={n})") for n in range(5))
    lines = _with_answer(wind, replace(made, rows=rows), width)
    shown = [line.split("  ")[0] for line in lines if line.startswith("finish(o")]
    assert len(set(shown)) == len(shown) == 5
    assert all(name.endswith(f"last={n})") for n, name in enumerate(shown))


def _with_answer(run: Results, made: ComparisonAnswer, width: int = 80) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "answer", made)
        return [line.plain for line in answer_lines(replace(run), width)]  # without what is kept


@given(st.text())
def test_a_name_can_neither_break_a_line_nor_reach_the_terminal(compared, name):
    comparison = compared({"a": (0.9,), "b": (0.2,)})
    made = answer(comparison)
    row = replace(made.rows[0], loop=name)
    # All that the lines need of one but for the title.
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=0), settings=SimpleNamespace(repeats=1))
    found = Results(Path("x"), manifest, (), comparison)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "answer", replace(made, rows=(row,)))
        patch.setattr(Results, "title", "title")
        lines = [line.plain for line in answer_lines(found, 80)]
    assert lines == [terminal_safe(line) for line in lines]
    assert not any(set(line) & set("\n\t\r") for line in lines)
