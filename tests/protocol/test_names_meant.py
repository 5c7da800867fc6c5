"""A part of a name means what has it, the whole name itself whatever else has it, and a mistyped one what it is most like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol.names import MAX_MEANT, meant, most_like, several

NAMES = st.lists(st.text("ab0/", min_size=1, max_size=8), unique=True, max_size=12)
TRIALS = ["bare/clean/t-0001/0", "bare/clean/t-0010/0", "finish/clean/t-0001/0", "finish(parse_retries=0)/clean/t-0001/0"]


@given(NAMES, st.text("ab0/", min_size=1, max_size=5))
def test_what_is_meant_is_among_the_names_and_has_all_that_was_typed(names: list[str], typed: str) -> None:
    for name in meant(typed, names):
        assert name in names
        assert all(part in name for part in typed.split("/"))


@given(NAMES)
def test_a_whole_name_means_itself_alone(names: list[str]) -> None:
    assert all(meant(name, names) == [name] for name in names)


@given(NAMES, st.data())
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
    assert meant("0001/bare", TRIALS) == []
    assert meant("(parse", TRIALS) == [TRIALS[3]]
    assert several(["a"] * MAX_MEANT) == "a, a, a, a"
    assert several(["a"] * (MAX_MEANT + 1)) == "a, a, a, a, …"


@pytest.mark.parametrize(
    ("typed", "meant"), [("repeat", "repeats"), ("profil", "profiles"), ("Seeed", "seed"), ("SEED", "seed"), ("xyzzy", None)]
)
def test_a_mistyped_name_is_most_like_one(typed: str, meant: str | None) -> None:
    assert most_like(typed, ["seed", "repeats", "profiles", "max_tool_steps"]) == meant
