"""A server on loopback for the models of trials, in the protocols of their vendors."""

from .answers import MAX_BODY_BYTES, OwnRequest, ServedTrial
from .server import Server

__all__ = ["MAX_BODY_BYTES", "OwnRequest", "ServedTrial", "Server"]
