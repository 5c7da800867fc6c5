"""Phases in a product: understand, plan, execute, reflect, answer; results are kept as files of a directory.

`FakeModel` makes the listed moves, offline; `whichloop.open_model("openai/gpt-4o-mini")` is a Model too.
"""

import asyncio
import tempfile

import whichloop.loops as lb
from whichloop.models.fake import FakeModel

SALES = {"2024": 120.0, "2025": 150.0}


async def sales(year: str) -> float:
    """Sales of a year, in million euro."""
    return SALES[year]


model = FakeModel(
    lb.Understanding("growth of sales", ("2024", "2025")),
    lb.Tasks((lb.PlanTask("a", "Sales of 2024."), lb.PlanTask("b", "Sales of 2025."))),  # they run together
    lb.Act("", (lb.ToolCall("sales", {"year": "2024"}),)),
    lb.Act("", (lb.ToolCall("sales", {"year": "2025"}),)),
    lb.Completion(True, "Both years are known."),
    lb.Text("120.0 and 150.0"),  # the results that the answer needs
    lb.Answer("", "Sales grew by 25 %."),
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        loop = lb.Phased(max_rounds=3, context_manager=lb.ToolContextManager(folder))
        outcome = asyncio.run(loop.run(lb.Query("How did sales grow from 2024 to 2025?"), lb.Toolbox([sales]), model))
    for task in outcome.details["tasks"]:
        print(task["id"], task["status"], task["description"], [call["output"] for call in task["toolCalls"]])
    print(f"{outcome.answer} ({outcome.stop}, {outcome.steps} tool tasks)")  # prints Sales grew by 25 %. (finished, 2 tool tasks)
