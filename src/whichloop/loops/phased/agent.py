"""The Agent of the document's refactor plan: tools, phases and tool calls in one object.

Rows such as S1-39 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whichloop.protocol import SILENT, Model, Observer, Outcome, Query, Toolbox

from .agent_tools import AgentTools
from .context import ToolContextManager
from .executor import ToolExecutorOptions
from .loop import Phased


class Agent(AgentTools):
    """Runs the phases with its own tool methods, which a subclass may override (rows S1-39 to S1-41)."""

    def __init__(
        self, tools: Toolbox | Iterable[Any], model: Model | None = None, config: Phased | None = None, observer: Observer = SILENT
    ) -> None:
        """`tools`: in any form (row S1-32). `model`: needed by all that asks one. `config`: the phases' options."""
        self.config = config or Phased()
        self.context_manager = self.config.context_manager or ToolContextManager()
        own_tools = tools if isinstance(tools, Toolbox) else list(tools)
        options = ToolExecutorOptions(
            own_tools,
            self.context_manager,
            model,
            self.config.prompts,
            self.config.cancel_grace_s,
            observer,
            self.config.select_model,
            self.config.program,
            tool_timeout_s=self.config.tool_timeout_s,
            tool_max_chars=self.config.tool_max_chars,
            tool_threads=self.config.tool_threads,
        )
        super().__init__(options)

    async def run(self, query: str | Query) -> Outcome:
        """Understand, plan, execute, reflect, answer. Raises ValueError without a model."""
        if self.options.model is None:
            raise ValueError("run needs a model: Agent(tools, model)")
        full_query = query if isinstance(query, Query) else Query(query)
        loop = replace(self.config, executor=self, context_manager=self.context_manager)
        return await loop.run(full_query, self.toolbox, self.options.model, self.options.observer)
