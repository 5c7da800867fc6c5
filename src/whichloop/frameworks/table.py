"""Agent frameworks as arms: options, needs and environments; `wiring` has what a user would write, one file each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from whichloop.programs.loop import ProgramLoop
from whichloop.programs.worker import Solver
from whichloop.protocol import StopReason
from whichloop.protocol.files import home
from whichloop.protocol.json_text import canonical_json, sha256

_RELEASE = re.compile(r"[a-z_]+@\d[\w.!+-]*")
_PYTHON = re.compile(r"^version(?:_info)?\s*=\s*([\d.]+)", re.MULTILINE)
WIRING = Path(__file__).with_name("wiring")


def environments() -> Path:
    """Return the folder of the environments that were installed, each under NAME or NAME@VERSION."""
    return home() / "frameworks"


def is_release(text: str) -> bool:
    """Say whether a text is NAME@VERSION of a framework that has a wiring."""
    return _RELEASE.fullmatch(text) is not None and text.partition("@")[0] in FRAMEWORKS


def packages_in(folder: Path) -> Mapping[str, str]:
    """Return the version of each package in an environment, by its plain name, sorted, and that of Python."""
    installed = (info.stem.rpartition("-") for info in folder.glob("lib/python*/site-packages/*.dist-info"))
    config = folder / "pyvenv.cfg"
    python = _PYTHON.search(config.read_text(encoding="utf-8")) if config.is_file() else None
    versions = {plain_name(name): version for name, _, version in installed}
    return dict(sorted(versions.items())) | {"python": python[1] if python else "unknown"}


def plain_name(requirement: str) -> str:
    """Return the name of the package in a requirement, without extras, in the spelling that all tools take for the same."""
    return re.sub(r"[-_.]+", "-", requirement.partition("[")[0]).lower()


@dataclass(frozen=True, slots=True)
class Framework(ProgramLoop):
    """A framework in an environment of its own; those in `FRAMEWORKS` have its name, its packages and its options."""

    venv: str = ""
    """Folder of the environment that has the framework, or NAME@VERSION that was installed; default: the tested version."""

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    """What is installed, as pip takes it: the packages that the wiring needs, the framework's own first."""

    @property
    def environment(self) -> tuple[Path, Mapping[str, str]]:
        """The environment's folder, and the versions of all packages in it, and of Python.

        Raises ValueError, as what is read from it does, with the command that makes one, if there is none or if it lacks a package.
        """
        release = self.venv if is_release(self.venv) else self.name
        is_own = bool(self.venv) and self.venv != release
        folder = Path(self.venv).expanduser().absolute() if is_own else environments() / release
        if not (folder / "bin" / "python").is_file():
            if is_own:
                raise ValueError(f"{self.name}: venv: {self.venv} is no virtual environment: it has no bin/python")
            raise ValueError(f"{release} is not installed: run whichloop install {release}, or give {self.name}(venv=FOLDER)")
        versions = packages_in(folder)
        if missing := [package for package in map(plain_name, self.requires) if package not in versions]:
            raise ValueError(f"{self.name}: {folder} lacks {', '.join(missing)}")
        return folder, versions

    @property
    def version(self) -> str:
        return self.packages[plain_name(self.requires[0])]

    @property
    def packages(self) -> Mapping[str, str]:
        """Versions of the packages that the wiring needs, by name, and of Python."""
        _, versions = self.environment
        return {package: versions[package] for package in (*map(plain_name, self.requires), "python")}

    @property
    def environment_digest(self) -> str:
        return sha256(canonical_json(dict(self.environment[1])))

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.wiring, *super(Framework, self).sources)

    @property
    def wiring(self) -> Path:
        """The file that runs in the environment."""
        return WIRING / f"{self.name}.py"

    def solver(self) -> Solver:
        return Solver(str(self.environment[0] / "bin" / "python"), f"{self.wiring}:solve")

    def options(self) -> Mapping[str, Any]:
        shared = {item.name for item in fields(Framework)}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in shared}


_ENDS, _ANSWERS = Framework.stops, {StopReason.FORCED}
_NO_LIMIT = _ENDS - {StopReason.MAX_STEPS}
_SHOWN = Literal["default", "shown"]
_VALUES: Mapping[str, tuple[Any, Any]] = {
    "tool_errors": (_SHOWN, "default"),
    "unknown_tool": (_SHOWN, "default"),
    "retries": (int, 1),
    "wire": (Literal["responses", "chat"], "responses"),
}
"""Option → its type and default."""
_MIDDLEWARE = (
    "`shown`: `ToolErrorMiddleware` gives a tool's error to the model (docs.langchain.com/oss/python/langchain/middleware)."
)


def _arm(name: str, stops: AbstractSet[StopReason], *requires: str, **docs: str) -> type[Framework]:
    """Return the arm of a framework. `requires`: what is installed; `docs`: option → what it does."""
    own = {"name": name, "requires": requires, "stops": stops, "__module__": __name__}
    options = [(each, _VALUES[each][0], field(default=_VALUES[each][1], metadata={"doc": doc})) for each, doc in docs.items()]
    return make_dataclass(name, options, bases=(Framework,), namespace=own, frozen=True, slots=True)


_ARMS = (
    _arm(
        "agent_framework", _NO_LIMIT | _ANSWERS, "agent-framework-core", "agent-framework-openai",
        tool_errors="`shown`: `include_detailed_errors` gives them to the model (learn.microsoft.com/agent-framework).",
        wire="`OpenAIChatClient`, over Responses, or `OpenAIChatCompletionClient` (learn.microsoft.com/agent-framework).",
    ),
    _arm("agno", _ENDS, "agno", "openai"),  # it has no limit of steps: the gateway ends it
    _arm("autogen", _ENDS, "autogen-agentchat", "autogen-ext[openai]"),
    _arm("crewai", _ENDS | _ANSWERS, "crewai"),  # at its limit it asks for an answer, and not every model gives one
    _arm("deepagents", _ENDS, "deepagents", "langchain", "langgraph", "langchain-openai", tool_errors=_MIDDLEWARE),
    _arm("dspy_react", _ENDS | _ANSWERS, "dspy", "litellm"),
    _arm(
        "google_adk", _ENDS, "google-adk", "litellm", "mcp",
        tool_errors="`shown`: `ReflectAndRetryToolPlugin` shows it (google.github.io/adk-docs/plugins/reflect-and-retry).",
    ),
    _arm("haystack", _NO_LIMIT, "haystack-ai", "openai"),  # at its limit it returns the last message, whatever it is
    _arm("langchain", _ENDS, "langchain", "langgraph", "langchain-openai", tool_errors=_MIDDLEWARE),
    _arm(
        "langgraph", _ENDS, "langgraph", "langgraph-prebuilt", "langchain-openai",
        tool_errors="`shown`: `ToolNode(handle_tool_errors=True)` (reference.langchain.com/python/langgraph.prebuilt).",
    ),
    _arm("llama_index", _ENDS, "llama-index-core", "llama-index-llms-openai-like"),
    _arm(
        "openai_agents", _ENDS, "openai-agents",
        tool_errors="`shown`: `failure_error_function` words it for the model (openai.github.io/openai-agents-python/tools).",
        unknown_tool="`shown`: `tool_not_found_behavior` tells it (openai.github.io/openai-agents-python/running_agents).",
        wire="What the SDK asks OpenAI over by default, or Chat Completions (openai.github.io/openai-agents-python/models).",
    ),
    _arm(
        "pydantic_ai", _ENDS, "pydantic-ai-slim[openai]", "openai",
        tool_errors="`shown`: a tool that fails raises `ModelRetry` (ai.pydantic.dev/tools-advanced/#tool-retries).",
        retries="Failures in a row of one tool that the model may mend (ai.pydantic.dev/tools-advanced/#tool-retries).",
        wire="What a name such as `openai:gpt-5` stands for, or `OpenAIChatModel` (ai.pydantic.dev/models/openai).",
    ),
    _arm("smolagents", _NO_LIMIT | _ANSWERS, "smolagents[openai]", "openai"),
    _arm("strands", _ENDS, "strands-agents[openai]", "openai"),
)  # fmt: skip
FRAMEWORKS: Final[Mapping[str, type[Framework]]] = {arm.name: arm for arm in _ARMS}
"""Name, which is that of the file in `wiring` and of the tested versions → the arm."""
