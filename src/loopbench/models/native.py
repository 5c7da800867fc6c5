"""The native-call codec: how a scripted model answers a program that names no codec of its own."""

from __future__ import annotations

from loopbench.protocol import Act, Answer, Inexpressible, Move, NativeCall, Reply, Role, ToolCall, WireError
from loopbench.protocol.wire import from_json, native_call


class NativeCodec:
    """Native tool calls; text without calls is the answer.

    Cannot say: an answer with a thought or a confidence, or that is no text; calls of arguments that JSON does not give back.
    """

    name = "native"
    role = Role.DECIDE
    max_calls = 64

    def render(self, move: Move) -> Reply:
        if isinstance(move, Act) and move.calls:
            return Reply(move.thought, tuple(native_call(call, place) for place, call in enumerate(move.calls)), None, "tool_calls")
        if isinstance(move, Answer) and isinstance(move.value, str) and not move.thought and move.confidence is None:
            return Reply(move.value)
        raise Inexpressible(f"a {type(move).__name__} that is neither calls nor a plain text")

    def parse(self, reply: Reply) -> Move:
        if not reply.calls:
            return Answer("", reply.text)
        return Act(reply.text, tuple(_call(call) for call in reply.calls))


def _call(call: NativeCall) -> ToolCall:
    try:
        arguments = from_json(call.arguments or "{}")
    except ValueError as error:
        raise WireError(f"The arguments of {call.name} are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise WireError(f"The arguments of {call.name} must be a JSON object")
    return ToolCall(call.name, arguments, call.id)


NATIVE = NativeCodec()
