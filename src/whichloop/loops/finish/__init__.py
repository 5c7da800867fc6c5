"""Design 3: tools are called natively, and the run ends when the model calls `__finish__` with an answer that is valid.

Two faces share one core. As a loop:

    Finish(max_steps=8).run_sync(Query("..."), Toolbox([search]), model)

and declaratively, with `final_output`, `on_step`, `on_stream` and branches, as a subclass of `module`.

Follow a run, from the top:

- `Finish.run` (loop.py) makes a `Run`, the state of one run (state.py), by `Finish.begin`, and says how it ended. The declarative
  face does the same in `Module._call` (module.py).
- `Finish.drive` (loop.py) is the loop of both: ask, read the calls, and end or take a step, up to the limit.
- `Finish._ask` (loop.py) sends the messages of `Run.messages` (state.py), and the tools with `__finish__` among them, in the native
  format of answer.py, which also reads the calls and checks the answer.
- `Finish._ends_run` (loop.py) says whether a valid `__finish__` wins over the calls beside it.
- `Finish._take_step` (loop.py) makes the other calls, shows `on_step` what came of them, and puts their results into the history by
  `Run.answer_calls` (state.py).
- `Finish._count_failure` (loop.py) ends the run after too many replies without a valid `__finish__`.
- `Finish._force` (loop.py) asks for the answer at the limit: by a forced call, or in the XML of xml_output.py.
"""

from .answer import FinishCodec as FinishCodec
from .answer import XmlCodec as XmlCodec
from .hooks import ParseError as ParseError
from .hooks import Partial as Partial
from .hooks import Step as Step
from .hooks import StreamChunk as StreamChunk
from .hooks import resolve_model as resolve_model
from .loop import Finish as Finish
from .module import Module as Module
from .module import UnfinishedError as UnfinishedError
from .module import module as module
from .state import ToolResult as ToolResult
from .state import Unfinished as Unfinished
from .state import tool as tool

LOOP = Finish
