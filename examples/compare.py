"""Which loop should I build on? A loop of one's own against two designs, in one call; offline, a few seconds."""

import tempfile

import whichloop
from whichloop.loops import Bare, Finish


class Terse(Bare):
    """Stands for a loop of yours: anything with name, stops, run and with_step_limit."""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        run = whichloop.compare(
            loops=[Terse(), "react_extract", Finish(max_steps=12)],
            suite="arithmetic",
            profiles=["flaky-format"],
            tasks=40,
            mlflow=False,
            runs=runs,
        )
        print(run)
        print(run.arms[["arm", "accuracy", "accuracy_low", "accuracy_high", "tokens"]].round(3).to_string(index=False))
        print(whichloop.why(run))
