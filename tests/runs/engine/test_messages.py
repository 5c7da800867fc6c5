"""Messages come out of a stream as they went in, however it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.runs.engine.messages import Frames, framed


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 20)))
def test_messages_survive_any_cuts(messages, cuts):
    stream, frames, found = b"".join(map(framed, messages)), Frames(), []
    for cut in cuts:
        found += frames.feed(stream[:cut])
        stream = stream[cut:]
    found += frames.feed(stream)
    assert found == messages


@given(st.lists(st.binary(max_size=20), min_size=1), st.data())
def test_what_is_not_whole_is_held_back(messages, data):
    stream = b"".join(map(framed, messages))
    at = data.draw(st.integers(0, len(stream) - 1))
    found = Frames().feed(stream[:at])
    assert found == messages[: len(found)]
    assert len(found) < len(messages)
