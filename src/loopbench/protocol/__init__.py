"""The contracts that every other part imports; this package imports nothing of loopbench.

Names load on first use: a command's help, or a shell that completes a word, needs none of them.
"""

from __future__ import annotations

from loopbench._lazy import lazy

_HOMES = {
    "loopbench.protocol.chat": ("CallDelta", "Capabilities", "Chunk", "Message", "NativeCall", "Reply", "Usage"),
    "loopbench.protocol.events": ("Observer", "RunEvent", "SILENT"),
    "loopbench.protocol.grammar": (
        "AnyCall",
        "Grammar",
        "GrammarCodec",
        "GrammarPart",
        "JsonValue",
        "OneOf",
        "Repeated",
        "SchemaCodec",
        "TextLine",
        "json_object",
    ),
    "loopbench.protocol.loop": ("CallsIn", "ForeignLoop", "Loop", "RunsSync", "WrappedLoop"),
    "loopbench.protocol.model": (
        "ContextOverflow",
        "DEFAULT_SAMPLING",
        "FunctionModel",
        "Model",
        "ModelError",
        "ProviderError",
        "Request",
        "Sampling",
        "WrappedModel",
    ),
    "loopbench.protocol.moves": (
        "Act",
        "Answer",
        "Codec",
        "Completion",
        "Inexpressible",
        "Move",
        "PlanTask",
        "Recovery",
        "Role",
        "STEP_ROLES",
        "Tasks",
        "Text",
        "Understanding",
        "WireError",
    ),
    "loopbench.protocol.outcome": ("HARNESS_STOPS", "Outcome", "StopReason"),
    "loopbench.protocol.plan": ("Plan", "PlannedCall", "Ref", "plan_from_json", "plan_to_json", "refs", "resolve"),
    "loopbench.protocol.program": (
        "Demo",
        "Optimizable",
        "OwnPrompt",
        "Program",
        "Prompt",
        "Prompted",
        "SavedProgram",
        "TakesProgram",
        "in_own_format",
        "own_prompt",
        "program_digest",
        "prompted",
        "read_program",
        "with_program",
    ),
    "loopbench.protocol.query": ("AnswerT", "Query"),
    "loopbench.protocol.redact": ("anonymous_address",),
    "loopbench.protocol.threads": ("run_sync",),
    "loopbench.protocol.tool_calls": ("BudgetExceeded", "Observation", "StopRun", "ToolCall", "ToolSpec", "TransientError"),
    "loopbench.protocol.tools": ("Tool", "Toolbox"),
    "loopbench.protocol.values": ("ToolArgumentError", "render_value"),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
