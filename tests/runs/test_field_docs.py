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


if __name__:

    class Conditional:
        place: int = 0
        """Under a condition."""


def test_each_field_has_the_string_under_it_and_that_of_a_base_unless_it_has_its_own() -> None:
    assert field_docs(Base) == {"steps": "How many.\n\nA second paragraph.", "mode": "How fast."}
    assert field_docs(Derived) == {**field_docs(Base), "mode": "How slow."}
