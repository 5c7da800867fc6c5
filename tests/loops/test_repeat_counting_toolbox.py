"""The toolbox of the guard against repetition has all that the toolbox within it has."""

from loopbench.loops.repeat_guard import RepeatCountingToolbox
from loopbench.protocol import Toolbox
from loopbench.protocol.tool_calls import ToolListing


def search(query: str) -> str:
    """Search."""
    return query


LISTING = Toolbox([search]).listed()


class Relisted(Toolbox):
    """A toolbox that lists other tools than it holds, as a server with a list fault does."""

    def listed(self) -> ToolListing:
        return LISTING


def test_a_changed_list_of_tools_reaches_the_loop_within() -> None:
    assert RepeatCountingToolbox(Relisted([]), 3, None).listed() is LISTING


def test_the_setting_to_check_arguments_is_kept() -> None:
    for checks in (True, False):
        assert RepeatCountingToolbox(Toolbox([search], check_arguments=checks), 3, None).check_arguments is checks
