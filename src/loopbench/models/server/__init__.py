"""A server on loopback for the models of trials, in the protocols of their vendors."""

from .bodies import MAX_BODY_BYTES
from .server import Server, own_hosts
from .trials import EmptyAnswer, OwnRequest, ServedTrial, UnknownModel, WrongMethod

__all__ = ["MAX_BODY_BYTES", "EmptyAnswer", "OwnRequest", "ServedTrial", "Server", "UnknownModel", "WrongMethod", "own_hosts"]
