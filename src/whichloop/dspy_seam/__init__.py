"""The only package that knows DSPy's model and adapter layer (3.4: engines, `dspy.lm15`, ChatAdapter).

It connects three things. `ask` is how a DSPy-based loop calls a predictor: rendered and parsed by DSPy's own chat format,
sent to any `Model`, or to the LM that DSPy is configured with, whose calls DSPy's trace is told. `lm_of` makes
a `dspy.LM` from a `Model`, and `DspyModel` a `Model` from a `dspy.LM`, which is how real models are reached.
"""

from __future__ import annotations

import os

from whichloop._lazy import explained_module

# Read by LiteLLM when it is first imported, and by DSPy: no price table is fetched from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

with explained_module(__name__):
    from .asking import ask, lm_of, prompt_of, set_prompt
    from .chat_format import FORMAT, ChatFormat, Fields, SignatureCodec, outputs_of, with_instructions
    from .clients import close_local_clients
    from .errors import model_error
    from .model import ClientModel, DspyModel, listed_price, local_client, model_named, open_lm

__all__ = [
    "FORMAT",
    "ChatFormat",
    "ClientModel",
    "DspyModel",
    "Fields",
    "SignatureCodec",
    "ask",
    "close_local_clients",
    "listed_price",
    "lm_of",
    "local_client",
    "model_error",
    "model_named",
    "open_lm",
    "outputs_of",
    "prompt_of",
    "set_prompt",
    "with_instructions",
]
