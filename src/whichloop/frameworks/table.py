"""Agent frameworks as arms: options, needs and environments; `wiring` has what a user would write, one file each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from whichloop.programs.loop import ProgramLoop
from whichloop.programs.worker import Solver
from whichloop.protocol import StopReason
from whichloop.protocol.digest import canonical_json, sha256
from whichloop.protocol.files import home
from whichloop.protocol.modules import names_in

_RELEASE = re.compile(r"[a-z_]+@\d[\w.!+-]*")
_PYTHON = re.compile(r"^version(?:_info)?\s*=\s*([\d.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FrameworkEnvironment:
    """One environment."""

    folder: Path
    python: str
    """Path of its interpreter."""
    versions: Mapping[str, str]
    """Versions of the packages that the wiring needs, by name, and of Python."""
    digest: str
    """Digest of the versions of all packages in it, and of Python's."""


def environments() -> Path:
    """Return the folder of the environments that were installed."""
    return home() / "frameworks"


def known_frameworks() -> list[str]:
    """Return the names of the frameworks that have a wiring, sorted."""
    return list(names_in("whichloop.frameworks.wiring"))


def find_environment(name: str, requires: Sequence[str], venv: str = "") -> FrameworkEnvironment:
    """Return the environment of a framework. `venv`: its folder, or its name among those that were installed.

    Raises ValueError, with the command that makes one, if there is none or if it lacks a package.
    """
    folder = environment_folder(venv or name) if not venv or is_release(venv) else Path(venv).expanduser().absolute()
    python = folder / "bin" / "python"
    if not python.is_file():
        if is_release(venv):
            raise ValueError(f"{venv} is not installed: run whichloop install {venv}")
        if venv:
            raise ValueError(f"{name}: venv: {venv} is no virtual environment: it has no bin/python")
        raise ValueError(f"{name} is not installed: run whichloop install {name}, or give {name}(venv=FOLDER)")
    versions = packages_in(folder)
    needed = [plain_name(requirement) for requirement in requires]
    if missing := [package for package in needed if package not in versions]:
        raise ValueError(f"{name}: {folder} lacks {', '.join(missing)}")
    needed_versions = {package: versions[package] for package in (*needed, "python")}
    return FrameworkEnvironment(folder, str(python), needed_versions, sha256(canonical_json(dict(versions))))


def environment_folder(release: str) -> Path:
    """Return where `install` makes the environment of a framework, NAME or NAME@VERSION."""
    return environments() / release


def is_release(text: str) -> bool:
    """Say whether a text is NAME@VERSION of a framework that has a wiring."""
    return _RELEASE.fullmatch(text) is not None and text.partition("@")[0] in known_frameworks()


def packages_in(folder: Path) -> Mapping[str, str]:
    """Return the version of each package in an environment, by its plain name, sorted, and that of Python."""
    places = sorted(folder.glob("lib/python*/site-packages"))
    return _versions(folder, tuple((str(place), place.stat().st_mtime_ns) for place in places))


@lru_cache(maxsize=64)  # reading them takes 50 ms, and each arm asks several times; a folder that changed is read again
def _versions(folder: Path, places: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    paths = [place for place, _ in places]
    versions = {plain_name(item.metadata["Name"]): item.version for item in distributions(path=paths) if item.metadata["Name"]}
    python = _PYTHON.search((folder / "pyvenv.cfg").read_text(encoding="utf-8")) if (folder / "pyvenv.cfg").is_file() else None
    return dict(sorted(versions.items())) | {"python": python[1] if python else "unknown"}


def plain_name(requirement: str) -> str:
    """Return the name of the package in a requirement, without extras, in the spelling that all tools take for the same."""
    return re.sub(r"[-_.]+", "-", requirement.partition("[")[0]).lower()


WIRING = Path(__file__).with_name("wiring")


@dataclass(frozen=True, slots=True)
class Framework(ProgramLoop):
    """A framework in an environment of its own; subclasses name its packages and add its options."""

    venv: str = ""
    """Folder of the environment that has the framework, or NAME@VERSION that was installed; default: the tested version."""

    requires: ClassVar[tuple[str, ...]]
    """What is installed, as pip takes it: the packages that the wiring needs, the framework's own first."""

    @property
    def name(self) -> str:
        return next(name for name, framework in FRAMEWORKS.items() if framework is type(self))

    @property
    def environment(self) -> FrameworkEnvironment:
        """The environment. Raises ValueError if there is none or if it lacks a package."""
        return find_environment(self.name, self.requires, self.venv)

    @property
    def version(self) -> str:
        """The framework's version in its environment. Raises ValueError as `environment` does."""
        return self.packages[plain_name(self.requires[0])]

    @property
    def packages(self) -> Mapping[str, str]:
        """The versions of what the wiring needs, and of Python. Raises ValueError as `environment` does."""
        return self.environment.versions

    @property
    def environment_digest(self) -> str:
        return self.environment.digest

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.wiring, *super(Framework, self).sources)

    @property
    def wiring(self) -> Path:
        """The file that runs in the environment."""
        return WIRING / f"{self.name}.py"

    def solver(self) -> Solver:
        """Return the wiring and the interpreter that runs it. Raises ValueError as `environment` does."""
        return Solver(self.environment.python, f"{self.wiring}:solve")

    def options(self) -> Mapping[str, Any]:
        shared = {item.name for item in fields(Framework)}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in shared}


@dataclass(frozen=True, slots=True)
class AgentFramework(Framework):
    """The agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `include_detailed_errors` gives a tool's error to the model (learn.microsoft.com/agent-framework)."""

    wire: Literal["responses", "chat"] = "responses"
    """`OpenAIChatClient`, which asks over Responses, or `OpenAIChatCompletionClient` (learn.microsoft.com/agent-framework)."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS} | {StopReason.FORCED}  # it always answers at its limit
    requires: ClassVar = ("agent-framework-core", "agent-framework-openai")


@dataclass(frozen=True, slots=True)
class Agno(Framework):
    """Agno's agent, which has no limit of steps: the gateway ends it."""

    requires: ClassVar = ("agno", "openai")


@dataclass(frozen=True, slots=True)
class AutoGen(Framework):
    """AutoGen's assistant with functions as tools."""

    requires: ClassVar = ("autogen-agentchat", "autogen-ext[openai]")


@dataclass(frozen=True, slots=True)
class CrewAI(Framework):
    """CrewAI's agent with functions as tools."""

    stops: ClassVar = Framework.stops | {StopReason.FORCED}  # at its limit it asks for an answer, and not every model gives one
    requires: ClassVar = ("crewai",)


@dataclass(frozen=True, slots=True)
class DeepAgents(Framework):
    """LangChain's agent with a plan, files and sub-agents: its own tools stand beside the task's."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ToolErrorMiddleware` gives a tool's error to the model (docs.langchain.com/oss/python/langchain/middleware)."""

    requires: ClassVar = ("deepagents", "langchain", "langgraph", "langchain-openai")


@dataclass(frozen=True, slots=True)
class DSPyReAct(Framework):
    """DSPy's experimental agent over native calls; its text formats are what `react_extract` compares."""

    stops: ClassVar = Framework.stops | {StopReason.FORCED}
    requires: ClassVar = ("dspy", "litellm")


@dataclass(frozen=True, slots=True)
class GoogleADK(Framework):
    """ADK's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ReflectAndRetryToolPlugin` shows a tool's error (google.github.io/adk-docs/plugins/reflect-and-retry)."""

    requires: ClassVar = ("google-adk", "litellm", "mcp")


@dataclass(frozen=True, slots=True)
class Haystack(Framework):
    """Haystack's agent component with functions as tools."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS}  # at its limit it returns the last message, whatever it is
    requires: ClassVar = ("haystack-ai", "openai")


@dataclass(frozen=True, slots=True)
class LangChain(Framework):
    """LangChain's agent, which runs on LangGraph."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ToolErrorMiddleware` gives a tool's error to the model (docs.langchain.com/oss/python/langchain/middleware)."""

    requires: ClassVar = ("langchain", "langgraph", "langchain-openai")


@dataclass(frozen=True, slots=True)
class LangGraph(Framework):
    """LangGraph's own agent, which `langchain` took the place of; many programs still have it."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `handle_tool_errors=True` of `ToolNode` (reference.langchain.com/python/langgraph.prebuilt/tool_node)."""

    requires: ClassVar = ("langgraph", "langgraph-prebuilt", "langchain-openai")


@dataclass(frozen=True, slots=True)
class LlamaIndex(Framework):
    """LlamaIndex's workflow agent with functions as tools."""

    requires: ClassVar = ("llama-index-core", "llama-index-llms-openai-like")


@dataclass(frozen=True, slots=True)
class OpenAIAgents(Framework):
    """The SDK's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `failure_error_function` words a tool's error for the model (openai.github.io/openai-agents-python/tools)."""
    unknown_tool: Literal["default", "shown"] = "default"
    """`shown`: `tool_not_found_behavior` tells the model (openai.github.io/openai-agents-python/running_agents)."""

    wire: Literal["responses", "chat"] = "responses"
    """What the SDK asks OpenAI over by default, or Chat Completions (openai.github.io/openai-agents-python/models)."""

    requires: ClassVar = ("openai-agents",)


@dataclass(frozen=True, slots=True)
class PydanticAI(Framework):
    """Pydantic AI's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: a tool that fails raises `ModelRetry` (ai.pydantic.dev/tools-advanced/#tool-retries)."""
    retries: int = 1
    """Failures in a row of one tool that the model may mend, `Agent(retries=…)` (ai.pydantic.dev/tools-advanced/#tool-retries)."""

    wire: Literal["responses", "chat"] = "responses"
    """What a name such as `openai:gpt-5` stands for, or `OpenAIChatModel` (ai.pydantic.dev/models/openai)."""

    requires: ClassVar = ("pydantic-ai-slim[openai]", "openai")


@dataclass(frozen=True, slots=True)
class Smolagents(Framework):
    """The agent that calls tools by JSON; it must call `final_answer` to end."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS} | {StopReason.FORCED}  # it always answers at its limit
    requires: ClassVar = ("smolagents[openai]", "openai")


@dataclass(frozen=True, slots=True)
class Strands(Framework):
    """Strands' agent, over a streamed model."""

    requires: ClassVar = ("strands-agents[openai]", "openai")


FRAMEWORKS: Final[Mapping[str, type[Framework]]] = {
    "agent_framework": AgentFramework,
    "agno": Agno,
    "autogen": AutoGen,
    "crewai": CrewAI,
    "deepagents": DeepAgents,
    "dspy_react": DSPyReAct,
    "google_adk": GoogleADK,
    "haystack": Haystack,
    "langchain": LangChain,
    "langgraph": LangGraph,
    "llama_index": LlamaIndex,
    "openai_agents": OpenAIAgents,
    "pydantic_ai": PydanticAI,
    "smolagents": Smolagents,
    "strands": Strands,
}
"""Name, which is that of the file in `wiring` and of the tested versions → the arm."""
