"""Opens a model by its name: a provider's over the network, or one in this process. Imports DSPy, which takes seconds."""

from __future__ import annotations

from whichloop.models.real import DEFAULTS, RealModel, RealOptions, open_remote_model
from whichloop.protocol.names import is_local_model

from .model import open_local


def open_model(name: str, base_url: str | None = None, options: RealOptions = DEFAULTS) -> RealModel:
    """Open a model: `provider/model` as DSPy names it, whose key comes from the environment; or `local` or `local:FILE`.

    `base_url`: an OpenAI-compatible server or gateway; left out: what `PROVIDER_BASE_URL` names, else the provider's own.
    Makes no connection; the weights of a local model are loaded, which takes seconds.
    Raises ValueError, in one line: for an unknown provider, a provider without its key, an address that cannot be used or that a
    local model has no use for, and for weights or a package that are not there.
    """
    if not is_local_model(name):
        return open_remote_model(name, base_url, options)
    if base_url is not None:
        raise ValueError(f"model {name!r} runs in this process and takes no base_url")
    return open_local(name, options)
