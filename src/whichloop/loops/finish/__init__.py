"""Design 3: tools are called natively, and the run ends when the model calls `__finish__` with an answer that is valid.

Two faces share one core. As a loop:

    Finish(max_steps=8).run_sync(Query("..."), Toolbox([search]), model)

and declaratively, with `final_output`, `on_step`, `on_stream` and branches, as a subclass of `module`.

Follow a run, from the top:

- `Finish.run` (loop.py) makes a `Run`, the state of one run, by `Finish.begin` (loop.py), and says how it ended. The declarative
  face does the same in `Module._call` (module.py).
- `Finish.drive` (loop.py) is the loop of both: ask, read the calls, and end or take a step, up to the limit.
- `Finish._ask` (loop.py) sends the messages of `Run.messages` (run.py), and the tools with `__finish__` among them, in the native
  format of codec.py.
- `Finish._ends_run` (loop.py) says whether a valid `__finish__`, which stated.py reads and output.py checks, wins over the calls
  beside it.
- `Finish._take_step` (loop.py) makes the other calls by `Finish._execute` (loop.py), shows `on_step` what came of them by
  `Finish._on_step` (loop.py), and puts their results into the history by `Run.answer_calls` (run.py).
- `Finish._count_failure` (loop.py) ends the run after too many replies without a valid `__finish__`.
- `Finish._force` (loop.py) asks for the answer at the limit: by a forced call, `Finish._force_call` (loop.py), or in the XML of
  xml_output.py, `Finish._force_xml` (loop.py).
"""

from .codec import FinishCodec, XmlCodec
from .loop import Finish
from .module import Module, UnfinishedError, module
from .output import tool
from .partial import Partial
from .run import ToolResult, Unfinished
from .step import ParseError, PartialCall, Step, StreamChunk, resolve_model

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
