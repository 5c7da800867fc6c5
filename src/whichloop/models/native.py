"""The native-call codec: how a scripted model answers a program that names no codec of its own."""

from __future__ import annotations

from whichloop.protocol import Act, Answer, Inexpressible, Move, Reply, Role
from whichloop.protocol.wire import native_call, read_call


class NativeCodec:
    """Native tool calls; text without calls is the answer.

    Cannot say: an answer with a thought or a confidence, or that is not text; calls of arguments that JSON does not give back.
    """

    name = "native"
    role = Role.DECIDE
    max_calls = 64

    def render(self, move: Move) -> Reply:
        if isinstance(move, Act) and move.calls:
            return Reply(move.thought, tuple(native_call(call, place) for place, call in enumerate(move.calls)), None, "tool_calls")
        if isinstance(move, Answer) and isinstance(move.value, str) and not move.thought and move.confidence is None:
            return Reply(move.value)
        raise Inexpressible(f"the {type(move).__name__} is neither calls nor a plain text")

    def parse(self, reply: Reply) -> Move:
        if not reply.calls:
            return Answer("", reply.text)
        return Act(reply.text, tuple(read_call(call) for call in reply.calls))


NATIVE = NativeCodec()
