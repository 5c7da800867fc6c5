"""What the replies of the scripted model would cost, had a provider given them."""

from __future__ import annotations

from dataclasses import replace

from whichloop.models.prices import Price
from whichloop.protocol import Reply, Request
from whichloop.protocol.tokens import CHARS_PER_TOKEN, estimate_input, estimate_usage

from .context_use import PrefixCount


class Pricing:
    """Gives the replies of one trial a cost, from a prompt cache too where that price is known.

    From the cache comes what `cacheable_tokens` counts: beginnings of at least 1,024 tokens that an earlier prompt had, too.
    """

    def __init__(self, price: Price) -> None:
        self._price = price
        self._prefixes = None if price.cached_input is None else PrefixCount()

    def __call__(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with what it costs; its tokens are estimated where nobody counted them."""
        usage = reply.usage or estimate_usage(estimate_input(request), reply)
        if self._prefixes is not None:
            before = self._prefixes.cacheable_bytes
            self._prefixes.count(request)
            cached = (self._prefixes.cacheable_bytes - before) // CHARS_PER_TOKEN
            usage = replace(usage, cached_tokens=min(cached, usage.input_tokens))
        return replace(reply, usage=self._price.on(usage))
