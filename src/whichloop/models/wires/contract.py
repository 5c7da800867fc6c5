from typing import NamedTuple

from .base import *  # noqa: F403
from .base import Path, Recall  # noqa: F401


class RateLimitState(NamedTuple):
    """What is left of the limits on requests and tokens of a minute."""

    max_requests: int
    max_tokens: int
    requests: int
    tokens: int
    """Left of each."""
    requests_reset_s: float
    tokens_reset_s: float
    """Seconds until all of it is there again."""
