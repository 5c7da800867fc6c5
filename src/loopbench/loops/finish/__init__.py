"""Design 3: tools are called natively, and the run ends when the model calls `__finish__` with an answer that is valid.

Two faces share one core. As a loop:

    Finish(max_steps=8).run_sync(Query("..."), Toolbox([search]), model)

and declaratively, with `final_output`, `on_step`, `on_stream` and branches, as a subclass of `module`.
"""

from .codec import FinishCodec, XmlCodec
from .hooks import ParseError
from .loop import Finish
from .models import resolve_model
from .module import Module, UnfinishedError, module
from .partial import Partial
from .run import ToolResult, Unfinished
from .step import PartialCall, Step, StreamChunk
from .tools import tool

__all__ = [
    "Finish",
    "FinishCodec",
    "Module",
    "ParseError",
    "Partial",
    "PartialCall",
    "Step",
    "StreamChunk",
    "ToolResult",
    "Unfinished",
    "UnfinishedError",
    "XmlCodec",
    "module",
    "resolve_model",
    "tool",
]

LOOP = Finish
