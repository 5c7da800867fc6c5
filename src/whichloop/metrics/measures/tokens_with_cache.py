"""Tokens at full price that a trial takes under a provider's prompt cache."""

from ..context import tokens_with_cache
from ..measure import Measure

MEASURE = Measure(tokens_with_cache, order=9, digits=0, label="tokens with a prompt cache", table="context")
