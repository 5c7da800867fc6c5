"""The environment of a task that has a user: the tools to talk with them stand beside the environment's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from whichloop.protocol import Model, Tool

from .modelled_user import ModelledUser
from .scripted_user import USER_TOOLS, ProposedCall, ScriptedTalk, ScriptedUser, User, tell_user
from .task import Environment
from .worlds import Toolset

PATIENCE_S = 3600.0
"""Seconds for which a tool waits for a user whom a model plays: requests to a model have time limits of their own."""


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """An environment with a user."""

    inner: Environment
    script: ScriptedUser
    talk: Toolset[User]
    tools: tuple[Tool, ...]

    def played_by(self, model: Model) -> UserEnvironment:
        talk = tuple(replace(tool, time_limit_s=PATIENCE_S) for tool in self.talk.bound_to(ModelledUser(self.script, model)))
        return replace(self, tools=(*talk, *self.inner.tools))

    def state(self) -> Any:
        return self.inner.state()

    def close(self) -> None:
        self.inner.close()


def with_user(inner: Environment, script: ScriptedUser, talk: Toolset[User] = USER_TOOLS) -> UserEnvironment:
    """Add a user to an environment. `talk`: the tools to talk with them, as `user_tools` makes them.

    Raises ValueError if an agent could not hear all of the script: it has a topic that `ask_user` does not have, or further
    requests while there is no `tell_user`.
    """
    user = ScriptedTalk(script)
    _check_heard(script, talk.bound_to(user))
    own = (tool if tool.read_only else replace(tool, function=_noticed(tool, user)) for tool in inner.tools)
    return UserEnvironment(inner, script, talk, (*talk.bound_to(user), *own))


def _check_heard(script: ScriptedUser, tools: tuple[Tool, ...]) -> None:
    by_name = {tool.name: tool for tool in tools}
    if script.further and tell_user.__name__ not in by_name:
        raise ValueError("the script has further requests, which an agent hears through tell_user: make the tools with asks=True")
    if (ask := by_name.get("ask_user")) is None:
        return  # tools that are not those of `user_tools`
    about = ask.parameters["properties"]["about"]
    topics = about.get("enum") or [about["const"]]
    for topic in script.says:
        if topic not in topics:
            raise ValueError(
                f"the script says something about {topic}, which ask_user does not have: its topics are {', '.join(topics)}"
            )


def _noticed(tool: Tool, user: ScriptedTalk) -> Callable[..., Any]:
    """Return the function of a tool that changes something, which also lets the user know of the call once it has succeeded."""
    function = tool.function

    async def later(*args: Any, **arguments: Any) -> Any:
        value = await function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    def at_once(*args: Any, **arguments: Any) -> Any:
        value = function(*args, **arguments)
        user.notices(ProposedCall(tool.name, arguments))
        return value

    return later if tool.is_async else at_once
