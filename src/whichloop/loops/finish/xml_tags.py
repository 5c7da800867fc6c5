"""The tags of an XML reply that have one of the expected names, and which of them belong together.

Each tag is read once and looked at once for each element that it may end, so that the time grows with the length of the reply and
with nothing else, whatever is in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from whichloop.protocol import WireError

MAX_TAGS = 200_000
"""Tags of the expected names that a reply may have."""
_ATTRIBUTES = r"""(?:\s(?:"[^"<]*"|'[^'<]*'|[^<>"'/]|/(?!>))*)?"""
"""No attribute has a `<` (XML 1.0, section 3.1), so that none is read twice. Not possessive: CPython 3.11.2 gets `*+` wrong."""


class XmlTag(NamedTuple):
    """One tag of a text."""

    start: int
    end: int
    name: str
    kind: str
    """`open`, `close` or, for an element without content, `empty`."""


@dataclass(frozen=True, slots=True)
class XmlTags:
    """All tags of a text in order, with what ends each opening one."""

    text: str
    tags: Sequence[XmlTag]
    balanced: Sequence[int]
    """For each tag, the place of the closing tag that balances it; beyond the last tag if there is none."""
    following: Sequence[int]
    """For each tag, the place of the next closing tag of its name; beyond the last tag if there is none."""
    closing: dict[str, list[int]]
    """Name → places of its closing tags."""

    @classmethod
    def of(cls, text: str, names: Collection[str]) -> XmlTags:
        """Find the tags of these names. Raises WireError if there are too many of them."""
        pattern = re.compile(rf"<(/?)({'|'.join(map(re.escape, dict.fromkeys(names)))}){_ATTRIBUTES}(/?)>")
        matches = pattern.finditer(text)
        tags = [
            XmlTag(tag.start(), tag.end(), tag[2], "empty" if tag[3] else "close" if tag[1] else "open")
            for tag in islice(matches, MAX_TAGS + 1)
        ]
        if len(tags) > MAX_TAGS:
            raise WireError(f"the XML has more than {MAX_TAGS:,} tags")
        none = len(tags)
        balanced, following = [none] * none, [none] * none
        closing: dict[str, list[int]] = {}
        opened: dict[str, list[int]] = {}
        for place, tag in enumerate(tags):
            if tag.kind == "open":
                opened.setdefault(tag.name, []).append(place)
            elif tag.kind == "close":
                closing.setdefault(tag.name, []).append(place)
                if opened.get(tag.name):
                    balanced[opened[tag.name].pop()] = place
        coming: dict[str, int] = {}
        for place in range(none - 1, -1, -1):
            following[place] = coming.get(tags[place].name, none)
            if tags[place].kind == "close":
                coming[tags[place].name] = place
        return cls(text, tags, balanced, following, closing)

    def end_of(self, place: int, last: int, is_leaf: bool) -> int | None:
        """Return the place of the tag before `last` that closes the one at `place`; None if absent.

        That is the next one for a leaf, and else the one that balances it, or the last one if none does.
        """
        end = self.following[place] if is_leaf else self.balanced[place]
        if end < last or is_leaf:
            return end if end < last else None
        places = self.closing.get(self.tags[place].name, [])
        before = bisect_left(places, last) - 1
        return places[before] if before >= 0 and places[before] > place else None


@dataclass(frozen=True, slots=True)
class XmlPart:
    """The content of an element, or a whole text."""

    within: XmlTags
    name: str
    opening: int
    """Where the element's opening tag begins."""
    start: int
    end: int
    first: int
    """Place of the first tag inside."""
    last: int
    """Place of the first tag behind."""

    @classmethod
    def whole(cls, text: str, names: Collection[str]) -> XmlPart:
        """Return a text as one part. Raises WireError if it has too many tags of these names."""
        tags = XmlTags.of(text, names)
        return cls(tags, "", 0, 0, len(text), 0, len(tags.tags))

    @property
    def text(self) -> str:
        return self.within.text[self.start : self.end]

    def elements(self, names: Collection[str], is_leaf: Callable[[str], bool]) -> Iterator[XmlPart]:
        """Yield the elements of these names inside that are siblings. An opening tag that nothing closes is text."""
        tags, place = self.within.tags, self.first
        while place < self.last:
            tag = tags[place]
            if tag.name not in names or tag.kind == "close":
                place += 1
                continue
            if tag.kind == "empty":
                yield XmlPart(self.within, tag.name, tag.start, tag.end, tag.end, place + 1, place + 1)
                place += 1
                continue
            end = self.within.end_of(place, self.last, is_leaf(tag.name))
            if end is not None:
                yield XmlPart(self.within, tag.name, tag.start, tag.end, tags[end].start, place + 1, end)
                place = end
            place += 1
