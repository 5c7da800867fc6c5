"""The policy through any codec: what a codec cannot say, the model does not decide."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Inexpressible,
    Move,
    Recovery,
    Reply,
    Role,
    Tasks,
    Text,
    Understanding,
    WireError,
    run_sync,
)

from . import bench


class Picky:
    """A codec that can say moves of some kinds only, and shows them as they are."""

    name = "picky"
    max_calls = 2

    def __init__(self, role: Role, kinds: set[type]) -> None:
        self.role = role
        self.kinds = kinds
        self.said: list[Move] = []

    def render(self, move: Move) -> Reply:
        if type(move) not in self.kinds:
            raise Inexpressible(type(move).__name__)
        self.said.append(move)
        return Reply(repr(move))

    def parse(self, reply: Reply) -> Move:
        for move in self.said:
            if repr(move) == reply.text:
                return move
        raise WireError("prose")


KINDS = [Act, Answer, Understanding, Tasks, Completion, Recovery, Text]


@settings(max_examples=cases(20), deadline=None)
@given(data=st.data(), role=st.sampled_from(list(Role)), kinds=st.sets(st.sampled_from(KINDS)), shown=st.booleans())
def test_a_move_that_a_codec_cannot_say_is_never_made(data: st.DataObject, role: Role, kinds: set[type], shown: bool) -> None:
    """Under any fault too: the reply is a move of a kind that can be said, or prose; a model always says something."""
    trial = bench.Bench(data.draw(bench.plans()), data.draw(st.sampled_from(["clean", "forgetful"])), seed=data.draw(st.integers()))
    codec = Picky(role, kinds)
    texts = trial.results().values() if shown else ()
    reply = run_sync(trial.model.complete(trial.request(*texts, role=role, codec=codec)))
    if codec.said:
        assert type(codec.parse(reply)) in kinds
    else:
        assert reply.text or trial.expected == ""
        assert reply.calls == ()
