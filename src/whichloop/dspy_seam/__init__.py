"""The only package that knows DSPy's model and adapter layer (3.4: engines, `dspy.lm15`, ChatAdapter).

It connects three things. `ask` is how a DSPy-based loop calls a predictor: rendered and parsed by DSPy's own chat format,
sent to any `Model`; under a teleprompter the same `ask` goes through the predictor, so that DSPy records its trace. `lm_of` makes
a `dspy.LM` from a `Model`, and `DspyModel` a `Model` from a `dspy.LM`, which is how real models are reached.
"""

from __future__ import annotations

import os

from whichloop._lazy import explained_module

# Read by LiteLLM when it is first imported, and by DSPy: no price table is fetched from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

with explained_module(__name__):
    from .asking import Prediction, ThroughPredictor, ask, ask_fields, lm_of, program_of, request_of, with_prompt
    from .chat_format import FORMAT, ChatFormat, Fields, SignatureCodec, with_instructions
    from .clients import close_local_clients
    from .errors import model_error
    from .model import ClientModel, DspyModel, listed_price, local_client, model_named, open_lm

__all__ = [
    "FORMAT",
    "ChatFormat",
    "ClientModel",
    "DspyModel",
    "Fields",
    "Prediction",
    "SignatureCodec",
    "ThroughPredictor",
    "ask",
    "ask_fields",
    "close_local_clients",
    "listed_price",
    "lm_of",
    "local_client",
    "model_error",
    "model_named",
    "open_lm",
    "program_of",
    "request_of",
    "with_instructions",
    "with_prompt",
]
