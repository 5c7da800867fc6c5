"""The stateless loop in a product: an agent decides, the product's own manager executes, with rules that no prompt can talk away.

`FakeModel` makes the listed moves, offline; `whichloop.open_model("openai/gpt-4o-mini")` is a Model too.
"""

from typing import Any

from whichloop.loops import Act, ActivityManager, Answer, ManualAgentLoop, MultiToolRegistry, ToolCall
from whichloop.models.fake import FakeModel


def find_order(number: int) -> dict[str, object]:
    """Look an order up by its number."""
    return {"number": number, "total": 40.0, "state": "delivered late"}


def refund(order: int, amount: float) -> str:
    """Pay money back for an order."""
    return f"refunded {amount:.2f} euro for order {order}"


class Desk(ActivityManager):
    """No refund beyond 50 euro without a human."""

    def _validate_tool_call(self, tool_call: Any) -> bool:
        return tool_call.tool_name != "refund" or float(tool_call.parameters.get("amount", 0)) <= 50


tools = MultiToolRegistry()
tools.register(find_order, refund)
model = FakeModel(
    Act("Look the order up.", (ToolCall("find_order", {"number": 7}),)),
    Act("Pay it back.", (ToolCall("refund", {"order": 7, "amount": 40.0}),)),
    Answer("Done.", "Your 40 euro are on their way.", confidence=0.9),
)
agent = ManualAgentLoop(tools, response_style=None, model=model)
COMPLAINT = "Order 7 came late, I want my money back."
if __name__ == "__main__":
    print(Desk(agent, tools, max_iterations=5).run_activity(COMPLAINT))  # prints Your 40 euro are on their way.
