"""The only package that knows DSPy's model and adapter layer (3.4: engines, `dspy.lm15`, ChatAdapter).

It connects three things. `ask` is how a DSPy-based loop calls a predictor: rendered and parsed by DSPy's own chat format,
sent to any `Model`, or to the LM that DSPy is configured with, whose calls DSPy's trace is told. `lm_of` makes
a `dspy.LM` from a `Model`, and `DspyModel` a `Model` from a `dspy.LM`, which is how real models are reached.
"""

from __future__ import annotations

import os

from whichloop._extras import needed_by

# Read by LiteLLM when it is first imported, and by DSPy: no price table is fetched from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

with needed_by(__name__, is_module=True):
    from .asking import ask as ask
    from .asking import lm_of as lm_of
    from .asking import prompt_of as prompt_of
    from .asking import set_prompt as set_prompt
    from .chat_format import Fields as Fields
    from .chat_format import SignatureCodec as SignatureCodec
    from .chat_format import outputs_of as outputs_of
    from .chat_format import with_instructions as with_instructions
    from .model import ClientModel as ClientModel
    from .model import DspyModel as DspyModel
    from .model import listed_price as listed_price
    from .model import local_client as local_client
    from .model import model_named as model_named
    from .model import open_lm as open_lm
