"""A server on loopback for the models of trials, in the protocols of their vendors."""

from .server import Server, own_hosts
from .trials import MAX_BODY_BYTES, OwnRequest, ServedTrial

__all__ = ["MAX_BODY_BYTES", "OwnRequest", "ServedTrial", "Server", "own_hosts"]
