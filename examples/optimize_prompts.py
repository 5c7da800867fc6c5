"""Prompts optimized, then used in a product: the scripted model slips until it is told better, and the file tells.

A simulation, offline. With a real model: model="openai/gpt-4o-mini", budget={"dollars": 5}, and no profile.
"""

import json
import tempfile

import whichloop
from whichloop import Bare, run_agent, with_program


def llm(messages: list[dict[str, str]], step: int) -> str:
    """Stands in for a call of your provider."""
    instructions = messages[0]["content"].partition("Reply with")[0]
    return json.dumps({"final_answer": f"I was told: {instructions}"})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        found = whichloop.optimize(
            ["bare"], "GEPA(max_full_evals=4)", profile="teachable", train=10, dev=10, mlflow=False, runs=runs
        )
        print(found)
        loop = with_program(Bare(), found.finding.designs[0].folder / "optimized.json")
    print(run_agent("What do four teas cost?", llm_func=llm, config=loop)["final_answer"])
