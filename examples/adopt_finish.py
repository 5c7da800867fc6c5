"""The `__finish__` loop in a product: a class whose call gives a validated answer, and a loop over any Model.
`FakeModel` makes the listed moves, offline; `model = "openai/gpt-4o-mini"` reaches a provider."""

from pydantic import BaseModel, Field

from whichloop.loops import Act, Answer, Finish, Query, Step, Toolbox, ToolCall, module, tool
from whichloop.models.fake import FakeModel

PRICES = Act("Two prices.", (ToolCall("price", {"item": "tea", "count": 4}), ToolCall("price", {"item": "cake"})))


@tool
def price(item: str, count: int = 1) -> float:
    """What so many of an item cost, in euro."""
    return {"tea": 3.5, "cake": 4.25}[item] * count


class Order(BaseModel):
    text: str = Field(description="what the guest said")


class Bill(BaseModel):
    total: float = Field(description="in euro")


class Waiter(module):
    """Turn an order into a bill: look every price up, then call __finish__."""

    model = FakeModel(PRICES, Answer("That is all.", {"total": 18.25}))
    initial_input, final_output, tools, max_steps = Order, Bill, [price], 6

    def on_step(self, step: Step) -> None:
        print(f"step {step.counter}: {[result.output for result in step.tool_results]}")


print(f"as a module: {Waiter()(text='Four teas and a cake, please.').total} euro")
model = FakeModel(PRICES, Answer("", "18.25 euro"))
outcome = Finish(max_steps=6).run_sync(Query("Four teas and a cake?"), Toolbox([price]), model)
print(f"as a loop:   {outcome.answer} ({outcome.stop}, {outcome.steps} steps)")  # prints 18.25 euro (finished, 2 steps)
