"""The grammar of specs, such as `bare(max_steps=3)`: what is written is read back, what cannot be read is refused in one line."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.protocol.names import MAX_MEANT, Spec, meant, most_like, parse_spec, several, toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
"""What TOML can hold."""
SCALAR = (
    TEXT
    | st.sampled_from(["true", "false", "inf", "nan", "none", "a, b", 'say "hi"', "it's", "C:\\x", "#1", "", "1", "\x7f", "])}"])
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(datetime.UTC))
)
VALUE = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6)
NAME = st.from_regex(r"[A-Za-z_][\w]{0,8}", fullmatch=True).filter(str.isidentifier)
WHOLE = st.from_regex(r"[A-Za-z_][\w.:-]{0,12}", fullmatch=True)
PROGRAM = st.from_regex(r"[a-zA-Z0-9_./()=@-][a-zA-Z0-9_./()=@ -]{0,10}[a-zA-Z0-9]", fullmatch=True)


@given(WHOLE, st.dictionaries(NAME, VALUE, max_size=4), PROGRAM | st.none())
@example("x", {"a": "true", "b": "inf"}, None)
def test_a_spec_is_read_back_from_its_text(name, options, program):
    spec = Spec(name, options, program)
    assert parse_spec(str(spec)) == spec
    assert spec.label == str(Spec(name, options, program and program.rpartition("/")[2]))


@given(st.text() | st.from_regex(r"[a-z]+\([^)]*\)?"))
def test_any_text_is_a_spec_or_a_value_error(text):
    try:
        spec = parse_spec(text)
    except ValueError:
        return
    again = parse_spec(str(spec))
    assert (again.name, again.options.keys()) == (spec.name, spec.options.keys())


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("bare", "bare", {}),
        ("bare(max_steps=3)", "bare", {"max_steps": 3}),
        ("bare( max_steps = 3 , check_types=true,)", "bare", {"max_steps": 3, "check_types": True}),
        ("x(mode=observe)", "x", {"mode": "observe"}),
        ('x(a="1, 2", b=[1, 2], c={k = "v, w"})', "x", {"a": "1, 2", "b": [1, 2], "c": {"k": "v, w"}}),
        (r'x(a="say \"a, b\"", b=1)', "x", {"a": 'say "a, b"', "b": 1}),
        ("x(a='''it's, ok''', b=1)", "x", {"a": "it's, ok", "b": 1}),
        ("my.module:Loop(n=inf)", "my.module:Loop", {"n": math.inf}),
        ("retry(loop=finish(n=0, m=[1, 2]), times=2)", "retry", {"loop": "finish(n=0, m=[1, 2])", "times": 2}),
        ("retry(loop=my.module:Loop, times=2)", "retry", {"loop": "my.module:Loop", "times": 2}),
        ("retry(loop=guard(loop=my.module:Loop(n=1)))", "retry", {"loop": "guard(loop=my.module:Loop(n=1))"}),
    ],
)
def test_what_can_be_written(text, name, options):
    assert parse_spec(text) == Spec(name, options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a name"),
        ("bare(", "not a name"),
        ("a@", "not a name"),
        ("a(b=1) c", "not a name"),
        ("bare(3)", "write option=value"),
        ("bare(n=)", "not a TOML value"),
        ("bare(n=two words)", "'two words' is not a TOML value"),
        ("retry(loop=my.module:)", "is not a TOML value"),
        ("retry(loop=finish(n=0)", "not a name"),
        ("bare(n=1]\nm=[2)", "not a TOML value"),
        ("bare(n=1, n=2)", "'n' is a duplicate"),
        (f"bare(n={'[' * 5_000})", "not a TOML value"),
        ('bare(n="""' + "\\" * 5_000 + ")", "not a TOML value"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        parse_spec(text)
    assert "\n" not in str(caught.value)


INNER = st.dictionaries(st.sampled_from("abc"), st.integers() | st.booleans() | st.text(max_size=5), min_size=1)


@given(INNER, st.integers(0, 3))
def test_a_name_with_options_needs_no_quotes_inside_another_one(options, depth):
    inner = str(Spec("inner", options))
    for level in range(depth):
        inner = f"around{level}(loop={inner})"
    assert parse_spec(f"outer(loop={inner}, n=1)") == parse_spec(f"outer(loop={toml_text(inner)}, n=1)")
    assert parse_spec(str(parse_spec(f"outer(loop={inner})"))).options == {"loop": inner}


SOME_NAMES = st.lists(st.text("ab0/", min_size=1, max_size=8), unique=True, max_size=12)
TRIALS = ["bare/clean/t-0001/0", "bare/clean/t-0010/0", "finish/clean/t-0001/0", "finish(parse_retries=0)/clean/t-0001/0"]


@given(SOME_NAMES, st.text("ab0/", min_size=1, max_size=5))
def test_what_is_meant_is_among_the_names_and_has_all_that_was_typed(names: list[str], typed: str) -> None:
    for name in meant(typed, names):
        assert name in names
        assert all(part in name for part in typed.split("/"))


@given(SOME_NAMES)
def test_a_whole_name_means_itself_alone(names: list[str]) -> None:
    assert all(meant(name, names) == [name] for name in names)


@given(SOME_NAMES, st.data())
def test_every_part_of_a_name_finds_it(names: list[str], data: st.DataObject) -> None:
    for name in names:
        start = data.draw(st.integers(0, len(name) - 1))
        part = name[start : data.draw(st.integers(start + 1, len(name)))]
        found = meant(part, names)
        assert found
        begun = "/" if "/" in part else "/\n"  # without a slash, a beginning counts no more than any other part
        whole = {other: sum(f"/{each}/" in f"/{other}/" for each in part.split("/") if each) for other in (name, *found)}
        assert name in found or any(
            f"/{part}/" in f"/{other}/" or f"{begun}{part}" in f"/{other}" or whole[other] > whole[name] for other in found
        )


def test_whole_parts_come_before_others_and_slashes_leave_room() -> None:
    assert meant("finish", TRIALS) == [TRIALS[2]]
    assert meant("bare/0001", TRIALS) == [TRIALS[0]]
    assert meant("finish/clean/t-00", TRIALS) == [TRIALS[2]]
    assert meant("finish/0001", TRIALS) == meant("finish/t-0001", TRIALS) == [TRIALS[2]]
    assert meant("bare/t1", ["bare/clean/t1/0", "bare/clean/t10/0", "guarded(loop=bare)/clean/t1/0"]) == ["bare/clean/t1/0"]
    numbered = [f"bare/clean/{task}/{repeat}" for task in (0, 10) for repeat in (0, 1)]
    for typed in ("0/0", "10/0", "0/1"):
        assert meant(typed, numbered) == [f"bare/clean/{typed}"]
    assert meant("0001/bare", TRIALS) == []
    assert meant("(parse", TRIALS) == [TRIALS[3]]
    assert several(["a"] * MAX_MEANT) == "a, a, a, a"
    assert several(["a"] * (MAX_MEANT + 1)) == "a, a, a, a, …"


@pytest.mark.parametrize(
    ("typed", "meant"), [("repeat", "repeats"), ("profil", "profiles"), ("Seeed", "seed"), ("SEED", "seed"), ("xyzzy", None)]
)
def test_a_mistyped_name_is_most_like_one(typed: str, meant: str | None) -> None:
    assert most_like(typed, ["seed", "repeats", "profiles", "max_tool_steps"]) == meant
