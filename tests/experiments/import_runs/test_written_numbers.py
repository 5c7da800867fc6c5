"""Numbers as people and spreadsheets write them: what can mean one thing only is read as that, all else is left as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, ScoreScale
from whichloop.experiments.import_runs.columns import unit_in
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.table_rows import FileRow
from whichloop.experiments.import_runs.written_numbers import NUMERIC, WHOLE, NumberColumn, read_numbers

NAMES = {"seconds": "latency", "cost_usd": "cost", "tokens": "tokens", "score": "score", "confidence": "confidence"}
numbers = st.decimals(0, 10**7, places=2, allow_nan=False)


def column(meaning, name=None, **changed):
    name = name or NAMES.get(meaning, meaning)
    return NumberColumn(meaning, name, unit_in(meaning, name), **changed)


def read(meaning, *cells, name=None, **changed):
    rows = [FileRow(f"line {number}", {meaning: cell}) for number, cell in enumerate(cells, 2)]
    return [row.cells[meaning] for row in read_numbers(rows, [column(meaning, name, **changed)]).rows]


def written(number, comma, apart):
    """A number with two decimals, by the signs for thousands and decimals."""
    text = f"{number:,.2f}"
    return text.replace(",", "t").replace(".", "," if comma else ".").replace("t", apart)


@given(
    st.lists(numbers, min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from(["", " ", "\u202f", "'", "own"]),
    st.sampled_from(["", "$", " USD", "US$"]),
)
def test_money_with_two_decimals_is_read_whatever_parts_its_thousands(values, comma, apart, sign):
    apart = ("." if comma else ",") if apart == "own" else apart
    texts = [written(value, comma, apart) for value in values]
    signed = [f"{sign}{text}" if sign in ("$", "US$") else f"{text}{sign}" for text in texts]
    assert list(map(float, read("cost_usd", *signed))) == list(map(float, values))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5))
def test_thousands_of_whole_things_are_read(values):
    assert list(map(int, read("tokens", *(f"{value:,}" for value in values)))) == values


@given(st.integers(0, 10**6), st.sampled_from([("ms", 1000), ("s", 1), (" sec", 1), (" min", 1 / 60), ("h", 1 / 3600)]))
def test_a_time_with_its_unit_is_read_in_seconds(number, unit):
    said, per_second = unit
    (seconds,) = read("seconds", f"{number}{said}")
    assert seconds == pytest.approx(number / per_second)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_are_read_in_either_form(hours, minutes, seconds):
    whole = hours * 3600 + minutes * 60 + seconds
    assert read("seconds", f"{hours}:{minutes:02}:{seconds:02}") == [whole]
    assert read("seconds", f"{hours}h {minutes}m {seconds}s") == [whole]
    assert read("seconds", f"PT{hours}H{minutes}M{seconds}.5S") == [whole + 0.5]
    assert read("seconds", f"1 days {hours:02}:{minutes:02}:{seconds:02}.5") == [86400 + whole + 0.5]


@given(
    st.sampled_from(sorted(NUMERIC)),
    st.lists(st.text("0123456789.,$€%mske -+'\u202f", max_size=8) | st.floats() | st.none(), max_size=4),
)
def test_any_cell_is_a_number_or_stays_as_it_is(meaning, cells):
    try:
        found = read(meaning, *cells)
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
    assert refused.startswith("line ") or all(new is old or isinstance(new, float) for new, old in zip(found, cells, strict=True))


@given(
    st.sampled_from(sorted({*NUMERIC} - {*WHOLE})),
    st.lists(st.floats(0, 1e9).map(repr) | st.integers(0, 10**9).map(str), max_size=4),
)
def test_plain_numbers_stay_as_they_are(meaning, cells):
    assert read(meaning, *cells) == cells


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5))
def test_points_between_the_thousands_of_whole_things_are_read_where_they_can_be_nothing_else(values):
    found = list(map(float, read("tokens", *(f"{value:,}".replace(",", ".") for value in values))))
    tells = any(value % 1000 or value >= 10**6 for value in values if value >= 1000)
    assert found == (values if tells else [value / 1000 if value >= 1000 else value for value in values])


@pytest.mark.parametrize(
    ("meaning", "cells", "found"),
    [
        ("seconds", ["1,965"], ["1,965"]),  # thousands, or three decimals
        ("seconds", ["1,965", "0,5"], [1.965, 0.5]),
        ("seconds", ["1,965", "0.5"], [1965, "0.5"]),
        ("seconds", ["1,234.5", "1,965"], [1234.5, 1965]),
        ("seconds", ["350ms", "1.2 s", "0"], [0.35, 1.2, "0"]),
        ("seconds", ["1m 30s", "2 min"], [90, 120]),
        ("tokens", ["1.965", "1.000", "7"], [1965, 1000, "7"]),
        ("tokens", ["1.000", "2.000"], [1, 2]),
        ("tokens", ["1.234.567"], [1234567]),
        ("seconds", ["1m 30", "s1", "1:30", "5 apples", "P1M2"], ["1m 30", "s1", "1:30", "5 apples", "P1M2"]),
        ("seconds", ["$3"], ["$3"]),
        ("cost_usd", ["$0.04", "0.05", "-$1", "USD 3"], [0.04, "0.05", -1, 3]),
        ("cost_usd", ["4¢", "12 cents"], [0.04, 0.12]),
        ("cost_usd", ["€0,04"], ["€0,04"]),
        ("cost_usd", ["350ms", "<$0.01", "$1-$2"], ["350ms", "<$0.01", "$1-$2"]),
        ("tokens", ["1,965 tokens", "2"], [1965, "2"]),
        ("tokens", ["1.9k", "1.001K", "2 M tokens", "7"], [1900, 1001, 2_000_000, "7"]),
        ("steps", ["1.2k"], [1200]),
        ("tokens", ["1,234k", "3x"], ["1,234k", "3x"]),  # thousands of thousands, or three decimals
        ("seconds", ["1:50.5", "0:01:50", "75:00.0"], [110.5, 110, 4500]),
        ("seconds", ["1:50", "0:02:00"], ["1:50", 120]),
        ("score", ["85%", "0,5", "PASS"], [0.85, 0.5, "PASS"]),
        ("score", ["7%"], [0.07]),
        ("confidence", ["90 %"], [0.9]),
        ("steps", ["3 steps", True], ["3 steps", True]),
    ],
)
def test_what_can_mean_one_thing_only_is_read(meaning, cells, found):
    assert read(meaning, *cells) == found


def test_a_percentage_is_none_of_a_scale():
    assert read("score", "85%", has_scale=True) == ["85%"]


def test_the_unit_of_the_name_is_that_of_cells_without_one():
    assert read("seconds", 350, "350", "350 ms", name="Latency (ms)") == [0.35] * 3
    assert read("score", "85", 85, "85%", name="Accuracy (%)") == [0.85] * 3


def test_how_the_cells_were_read_is_told(kit):
    rows = 'a,x,✓,$0.04,350ms,"1,965"\na,y,✗,$1.00,1.2s,12\n'
    told = read_file(kit.put(f"agent,task,score,cost,latency,tokens\n{rows}", ".csv"), ImportRequest()).readings
    assert told[1:] == (
        "column 'tokens' is read so: '1,965' as 1965",
        "column 'cost' is read so: '$0.04' as 0.04 US dollars",
        "column 'latency' is read so: '350ms' as 0.35 seconds, '1.2s' as 1.2 seconds",
    )


def test_a_percentage_in_the_name_or_the_cell_gives_the_same_scores_as_a_scale(kit):
    def scores(text, **reading):
        return [record.accuracy for record in kit.imported(kit.put(f"agent,task,{text}", ".csv"), **reading).records]

    assert scores("Score (%)\na,x,85\na,y,7\n") == scores("score\na,x,85%\na,y,7%\n") == [0.85, 0.07]
    assert scores("Score (%)\na,x,85\na,y,7\n", scale=ScoreScale(0, 100)) == [0.85, 0.07]


@pytest.mark.parametrize(
    "signs",
    [
        ("PASS", "FAIL", "ERROR"),
        ("passed", "failed", "error"),
        ("✓", "✗", "Errored"),
        ("✅", "❌", "error"),
        ("yes", "no", "ERROR"),
        ("y", "n", "crashed"),
    ],
)
def test_a_column_of_verdicts_tells_scores_and_errors(kit, signs):
    rows = "".join(f"a,{task},{sign}\n" for task, sign in zip("xyz", signs, strict=True))
    path = kit.put(f"agent,task,Result\n{rows}", ".csv")
    for columns in ({"score": "Result"}, {"score": "Result", "status": "Result"}):
        found = kit.imported(path, columns=columns).records
        said = [(record.status, record.accuracy, record.stop, record.reason) for record in found]
        assert said == [("scored", 1, None, ""), ("scored", 0, None, ""), ("errored", 0, "crashed", f"the score is {signs[2]}")]
    counted = kit.imported(path, columns={"score": "Result"}, errors_as_failures=True).records
    assert [record.accuracy for record in counted] == [1, 0, 0]
    assert {record.status for record in counted} == {"scored"}


def test_a_skipped_trial_is_excluded(kit):
    found = kit.imported(kit.put("agent,task,score\na,x,PASS\na,y,skipped\n", ".csv")).records
    assert [record.status for record in found] == ["scored", "excluded"]


def test_a_column_of_large_times_without_a_unit_may_be_milliseconds(kit):
    for cells in (("1200", "900"), ("1200.5", "899.5")):
        path = kit.put(f"agent,task,score,latency\na,x,1,{cells[0]}\na,y,1,{cells[1]}\n", ".csv")
        assert read_file(path, ImportRequest()).notes == (
            "column 'latency' is taken as seconds, as nothing says its unit: 1,050 in the median; if they are milliseconds, "
            "call it 'latency_ms'",
        )
    for head, cells in (("latency_ms", ("1200", "900")), ("latency", ("130", "90")), ("seconds", ("1200", "900"))):
        path = kit.put(f"agent,task,score,{head}\na,x,1,{cells[0]}\na,y,1,{cells[1]}\n", ".csv")
        assert read_file(path, ImportRequest()).notes == ()


def test_a_bare_number_beside_times_of_several_parts_is_told(kit):
    for cells, told in ((("90", "1m 30s"), True), (("1m 30s", "90"), True), (("1m 30s", "2m 1s"), False), (("90", "91"), False)):
        path = kit.put(f"agent,task,score,time\na,x,1,{cells[0]}\na,y,1,{cells[1]}\n", ".csv")
        log = read_file(path, ImportRequest())
        assert any("'90' as 90 seconds" in reading for reading in log.readings) == told


def test_a_column_that_the_user_named_is_not_offered_to_be_left_out(kit):
    path = kit.put("agent,task,score,Wall\na,x,1,soon\n", ".csv")
    with pytest.raises(ValueError, match=r"Wall is not a number: 'soon'$"):
        read_file(path, ImportRequest(reading=ReadingOptions(columns={"seconds": "Wall"})))
