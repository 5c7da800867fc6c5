"""What importers of tasks are made of: files that are read once and checked line by line, rows, tools of the user's own."""

from .frame import suite_from_frame
from .own_tools import own_tools

__all__ = ["own_tools", "suite_from_frame"]
