"""Classes whose objects are made quickly are frozen ones like any other."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import ModelExchange
from whichloop.protocol import Message, Reply, Request
from whichloop.protocol.quick_frozen import quick_frozen


@quick_frozen
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    count: int = 3
    items: tuple[int, ...] = ()
    more: dict[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Usual:
    name: str
    count: int = 3
    items: tuple[int, ...] = ()
    more: dict[str, int] = field(default_factory=dict, compare=False)


GIVEN = st.tuples(st.text(), st.integers(), st.lists(st.integers()).map(tuple), st.dictionaries(st.text(), st.integers()))


@given(GIVEN, GIVEN, st.integers(1, 4))
def test_an_object_is_that_of_the_frozen_class(values: tuple[Any, ...], others: tuple[Any, ...], count: int) -> None:
    quick, usual = Quick(*values[:count]), Usual(*values[:count])
    assert type(quick) is Quick
    assert all(getattr(quick, each.name) == getattr(usual, each.name) for each in fields(Usual))
    assert (quick == Quick(*others[:count])) == (usual == Usual(*others[:count]))
    assert hash(quick) == hash(usual)
    assert repr(quick).removeprefix("Quick") == repr(usual).removeprefix("Usual")
    assert replace(quick, name="other") == Quick("other", *values[1:count])


@pytest.mark.parametrize(
    "made", [Quick("a", more={"b": 1}), Message("user", "a"), Request((Message("user"),)), ModelExchange("decide", 0, ())]
)
def test_copies_are_equal_and_as_frozen_as_the_original(made: Any) -> None:
    for one in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(one) is type(made)
        assert one == made
        name = fields(made)[0].name
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, "changed")
        with pytest.raises(FrozenInstanceError):
            delattr(one, name)


def test_a_field_that_is_missing_or_unknown_is_an_error() -> None:
    with pytest.raises(TypeError, match="name"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown"):
        Quick("a", unknown=1)  # type: ignore[call-arg]


def test_each_object_has_a_default_of_its_own() -> None:
    assert Quick("a").more is not Quick("a").more


def test_a_subclass_is_made_too() -> None:
    class Longer(Reply):
        @property
        def length(self) -> int:
            return len(self.text)

    made = Longer("four")
    assert (type(made), made.length) == (Longer, 4)
    with pytest.raises(FrozenInstanceError):
        made.text = "changed"  # type: ignore[misc]


def test_the_signature_is_that_of_the_fields() -> None:
    assert list(inspect.signature(Quick).parameters) == [each.name for each in fields(Quick)]
    assert inspect.signature(Quick).parameters["count"].default == 3
