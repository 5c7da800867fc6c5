"""The contracts that every other part imports; this package imports nothing of whichloop.

Names load on first use: a command's help, or a shell that completes a word, needs none of them.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {
    "whichloop.protocol.chat": ("CallDelta", "Capabilities", "Chunk", "Message", "NativeCall", "Reply", "Usage"),
    "whichloop.protocol.events": ("Observer", "RunEvent", "SILENT"),
    "whichloop.protocol.loop": ("CallsIn", "ForeignLoop", "Loop", "RunsSync", "WrappedLoop"),
    "whichloop.protocol.model": (
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
    "whichloop.protocol.moves": (
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
    "whichloop.protocol.outcome": ("AnswerT", "HARNESS_STOPS", "Outcome", "Query", "StopReason"),
    "whichloop.protocol.plan": ("Plan", "PlannedCall", "Ref", "plan_from_json", "plan_to_json", "refs", "resolve"),
    "whichloop.protocol.predictor": ("Predictor", "in_own_format", "own_prompt"),
    "whichloop.protocol.program": (
        "Demo",
        "Optimizable",
        "Program",
        "Prompt",
        "Prompted",
        "SavedProgram",
        "TakesProgram",
        "program_digest",
        "read_program",
        "with_program",
    ),
    "whichloop.protocol.redact": ("anonymous_address",),
    "whichloop.protocol.threads": ("run_sync",),
    "whichloop.protocol.tool_calls": ("BudgetExceeded", "Observation", "StopRun", "ToolCall", "ToolSpec", "TransientError"),
    "whichloop.protocol.tools": ("Tool", "Toolbox"),
    "whichloop.protocol.values": ("ToolArgumentError", "render_value"),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
