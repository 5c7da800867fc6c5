"""The strings under the fields of a class: of its bases too, wherever the class stands."""

from __future__ import annotations

from dataclasses import dataclass

from whichloop.runs.built_in import field_docs


@dataclass
class Base:
    """Not a field's."""

    steps: int = 3
    """How many.

    A second paragraph.
    """
    mode: str = "fast"
    """How fast."""


class Derived(Base):
    class Inner:
        size: int = 1
        """Of the inner one."""

    mode: str = "slow"
    """How slow."""
    silent: bool = True
    loud = False
    """Under what has no type."""


def made() -> type:
    class Local:
        here: int = 0
        """In a function."""

    return Local


if __name__:

    class Conditional:
        place: int = 0
        """Under a condition."""


def test_each_field_has_the_string_under_it_and_that_of_a_base_unless_it_has_its_own() -> None:
    assert field_docs(Base) == {"steps": "How many.\n\nA second paragraph.", "mode": "How fast."}
    assert field_docs(Derived) == {**field_docs(Base), "mode": "How slow."}


def test_a_class_is_found_where_it_stands() -> None:
    assert field_docs(Derived.Inner) == {"size": "Of the inner one."}
    assert field_docs(made()) == {"here": "In a function."}
    assert field_docs(Conditional) == {"place": "Under a condition."}


def test_without_source_there_is_nothing_to_read() -> None:
    assert field_docs(type("Elsewhere", (), {"__module__": "nowhere"})) == {}
    assert field_docs(int) == {}
