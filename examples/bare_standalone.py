"""The bare loop by itself: tools are plain functions, and the model is any function from messages to text.

Needs nothing but loopbench, and runs offline: `llm` below is a stand-in of a few lines. Put a call of your provider in its place;
it gets the messages as any chat API takes them, and gives back the reply's text.
"""

from __future__ import annotations

import json

from loopbench.loops.bare import Bare, ToolRegistry, run_agent

PRICES = {"tea": 3.5, "cake": 4.25}

tools = ToolRegistry()


@tools.register()
def price(item: str) -> float:
    """Price of one item, in euro."""
    if item not in PRICES:
        raise ValueError(f"we do not sell {item}; we sell {', '.join(PRICES)}")
    return PRICES[item]


@tools.register()
def times(amount: float, count: int) -> float:
    """Multiply an amount of money."""
    return amount * count


def llm(messages: list[dict[str, str]], step: int) -> str:
    """Misspells the item at first, reads the error, and gets there."""
    if step == 0:
        return json.dumps({"thought": "Look the price up.", "tool_name": "price", "arguments": {"item": "teas"}})
    seen = json.loads(messages[-1]["content"])
    if seen["status"] == "error":
        return json.dumps({"thought": "It is called tea.", "tool_name": "price", "arguments": {"item": "tea"}})
    if seen["tool_name"] == "price":
        arguments = {"amount": float(seen["data"]), "count": 4}
        return json.dumps({"thought": "Four of them.", "tool_name": "times", "arguments": arguments})
    return json.dumps({"final_answer": f"Four teas cost {seen['data']} euro."})


def main() -> None:
    result = run_agent("What do four teas cost?", llm_func=llm, registry=tools, config=Bare(check_types=True))
    for entry in result["history"]:
        print(f"{entry['role']:>11}  {entry['content']}")
    print(f"\n{result['final_answer']} ({result['steps']} steps)")


if __name__ == "__main__":
    main()
