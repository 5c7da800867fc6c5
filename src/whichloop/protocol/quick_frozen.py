"""Frozen dataclasses whose objects are made quickly: filled while they are open, and frozen then."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def quick_frozen(cls: C) -> C:
    """Decorate a frozen dataclass of which a trial makes many objects. A `__post_init__` may check an object, and not fill it.

    The constructor of a frozen dataclass sets each field by `object.__setattr__`, which takes longer than all the rest of it. Here
    an object is made as one of a subclass that is open, filled by the constructor of an ordinary dataclass, and then changes its
    class. That pays from three fields on. Equality, hash, `replace`, copies and the refusal of changes are as of any frozen class.
    """
    as_usual = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    opened: Any = type(cls.__name__, (cls,), as_usual)
    names = [each.name for each in fields(cls)]
    new = object.__new__

    check: Any = getattr(cls, "__post_init__", None)

    def freeze(self: object) -> None:
        self.__class__ = cls

    def freeze_checked(self: object) -> None:
        check(self)
        self.__class__ = cls

    def restore(self: Any, state: Any) -> None:
        for name, value in state.items() if isinstance(state, dict) else zip(names, state, strict=True):
            setattr(self, name, value)
        freeze(self)

    def make(wanted: type, *_: object, **__: object) -> Any:
        return new(opened if wanted is cls else wanted)  # a subclass of a user's own is filled by the frozen constructor

    parts = [(each.name, each.type, _like(each)) for each in fields(cls)]
    usual: Any = make_dataclass(cls.__name__, parts, namespace={"__post_init__": freeze})
    filled = freeze if check is None else freeze_checked
    opened.__init__, opened.__post_init__, opened.__setstate__ = usual.__init__, filled, restore
    cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]  # inspect reads it
    cls.__new__ = make  # type: ignore[assignment]  # it gives an instance of `opened`, which becomes one of `cls`
    return cls


def _like(each: Field[Any]) -> Any:
    """Return a field with the same default."""
    if each.default is not MISSING:
        return field(default=each.default)
    return field() if each.default_factory is MISSING else field(default_factory=each.default_factory)


def _signature(cls: Any) -> inspect.Signature:
    """Return a class's signature as its frozen constructor has it, without `self`."""
    whole = inspect.signature(cls.__init__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])
