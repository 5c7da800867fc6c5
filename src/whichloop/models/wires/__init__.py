"""The APIs of four vendors, the server's side."""

from .base import Wire
from .chat import CHAT
from .gemini import GEMINI
from .messages import MESSAGES
from .responses import RESPONSES

WIRES: tuple[Wire, ...] = (RESPONSES, MESSAGES, GEMINI, CHAT)
"""The first to which a request is addressed answers it; the last takes what no other one does."""
