"""Prompts optimized, then used in a product: the scripted model slips until it is told better, and the file tells.

A simulation, offline. With a real model: "models": ["openai/gpt-4o-mini"], "budget": {"dollars": 5}, and no profile.
"""

import json
import tempfile
from pathlib import Path

from loopbench import Bare, run_agent, with_program
from loopbench.experiments.optimize.config import load_optimize_config
from loopbench.experiments.optimize.result import optimization_result
from loopbench.experiments.optimize.run import prepare, run
from loopbench.experiments.optimize.tables import verdicts

SETTINGS = {"loops": ["bare"], "optimizer": "GEPA(max_full_evals=4)", "profiles": ["teachable"], "train": 10, "dev": 10}


def llm(messages: list[dict[str, str]], step: int) -> str:
    """Stands in for a call of your provider."""
    instructions = messages[0]["content"].partition("Reply with")[0]
    return json.dumps({"final_answer": f"I was told: {instructions}"})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        made = prepare(load_optimize_config(None, {**SETTINGS, "mlflow": False, "runs": Path(runs)}))
        run(made)
        found = optimization_result(made.folder)
        print(*verdicts(found), sep="\n")
        loop = with_program(Bare(), found.designs[0].folder / "optimized.json")
    print(run_agent("What do four teas cost?", llm_func=llm, config=loop)["final_answer"])
