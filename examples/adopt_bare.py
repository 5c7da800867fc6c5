"""The bare loop in a product: plain functions as tools, and any function from messages to text as the model.

`llm` stands in for a call of your provider: it gets the messages as any chat API takes them, and gives back the reply's text.
"""

import json
from typing import Any

from whichloop.loops import Bare, ToolRegistry, run_agent

PRICES = {"tea": 3.5, "cake": 4.25}
tools = ToolRegistry()


@tools.register()
def price(item: str, count: int = 1) -> float:
    """What so many of an item cost, in euro."""
    if item not in PRICES:
        raise ValueError(f"we do not sell {item}; we sell {', '.join(PRICES)}")
    return PRICES[item] * count


def llm(messages: list[dict[str, str]], step: int) -> str:
    """Misspells the item at first, reads the error, and gets there."""
    if step == 0:
        return json.dumps({"thought": "Look it up.", "tool_name": "price", "arguments": {"item": "teas", "count": 4}})
    seen: dict[str, Any] = json.loads(messages[-1]["content"])
    if seen["status"] == "error":
        return json.dumps({"thought": "It is called tea.", "tool_name": "price", "arguments": {"item": "tea", "count": 4}})
    return json.dumps({"final_answer": f"Four teas cost {seen['data']} euro."})


if __name__ == "__main__":
    result = run_agent("What do four teas cost?", llm_func=llm, registry=tools, config=Bare(check_types=True))
    for entry in result["history"]:
        print(f"{entry['role']:>11}  {entry['content']}")
    print(f"{result['final_answer']} ({result['steps']} steps)")  # prints Four teas cost 14.0 euro.
