"""Objects that a program hands over and that no import can find again, such as a loop defined inside a function.

`whichloop.api` keeps them here under a name, so that the rest of whichloop can look them up like any other
`package.module:Name`. A class stays until another one of the same name is defined in the same place, an optimizer for as long as
the process lives. Any other object stays as long as the program holds it, if it allows weak references, as objects do unless their
class has `__slots__`; then its name is free again. Worker processes and later resumes cannot find them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

_LOOK_UPS: dict[str, Callable[[], Any]] = {}
"""Name → a function that returns what is kept under it, or None if that is gone."""
_NAMES: dict[Hashable, str] = {}
"""Key of what is kept → its name."""
HANDED_OVER: set[str] = set()
"""Names of what the running script defines itself and handed over."""
_NAMING = threading.Lock()


def __getattr__(name: str) -> Any:
    """Return what is kept under a name. Raises AttributeError if there is nothing, or nothing any more."""
    look_up = _LOOK_UPS.get(name)
    target = None if look_up is None else look_up()
    if target is None:
        raise AttributeError(f"{__name__} keeps nothing under {name!r}")
    return target


def keep(key: Hashable, name: str, look_up: Callable[[], Any], owner: object = None) -> str:
    """Keep what `look_up` returns, in the place of what had the same key, and return its name: `name`, numbered if that is taken.

    `owner`: the object with which the entry goes; None: it stays.
    """
    with _NAMING:
        known_name = _NAMES.get(key)
        free = known_name or _free(name)
        _NAMES[key] = free
        _LOOK_UPS[free] = look_up
    if known_name is None and owner is not None:
        with suppress(TypeError):  # its class has __slots__: it stays
            weakref.finalize(owner, _forget, key).atexit = False
    return f"{__name__}:{free}"


def _free(name: str) -> str:
    base = "".join(letter if letter.isalnum() else "_" for letter in name) or "object"
    number, free = 1, base
    while free in _LOOK_UPS or free in globals():
        number += 1
        free = f"{base}_{number}"
    return free


def _forget(key: Hashable) -> None:
    del _LOOK_UPS[_NAMES.pop(key)]


def names() -> list[str]:
    """Return the names of all that is kept or was handed over, as a configuration holds them."""
    return [*(f"{__name__}:{name}" for name in list(_LOOK_UPS)), *HANDED_OVER]
