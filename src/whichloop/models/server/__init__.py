"""A server on loopback for the models of trials, in the protocols of their vendors."""

from whichloop.models.wires.fields import MAX_BODY_BYTES

from .server import McpPages, Server, own_hosts
from .trials import OwnRequest, ServedTrial, UnknownModel, WrongMethod

__all__ = ["MAX_BODY_BYTES", "McpPages", "OwnRequest", "ServedTrial", "Server", "UnknownModel", "WrongMethod", "own_hosts"]
