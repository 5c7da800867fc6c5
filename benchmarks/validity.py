"""How well the tunnel predicts runs whose model is not the one it is fitted with, or is its own under a profile unknown to the fit.

python benchmarks/validity.py [--share S] [--write]

Markdown to stdout; --write renews the table in docs/validity.md. Each row is a run of the five designs on `arithmetic` under a
built-in profile, or on the model of `other_policy.py`, which shares no code with the scripted one; it is validated as `whichloop
validate` does it. Rows of the scripted model show what the fit and noise take away; the others, what structure it does not know.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from other_policy import TEMPERS, Temper, in_the_tunnels_place

from comparing import DESIGNS, folder_of_run
from pages import head, make_tables, row
from whichloop.experiments.validate.prediction import predict, register
from whichloop.experiments.validate.validity import validity

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
PROFILES = ("native-2024", "text-2024", "flaky-format", "flaky-tools", "forgetful", "stubborn")
TASKS = 240


def table(tasks: int) -> Iterator[str]:
    """Return the table of docs/validity.md, line by line."""
    yield f"Runs of the five designs on {tasks} tasks of `arithmetic`, half of them held out; brackets are 95 % intervals."
    yield ""
    columns = ("run under", "verdict", "pairs told apart", "misplaced", "tau-b", "largest gap of accuracy")
    yield from head(*columns, "off")
    for profile in PROFILES:
        yield row(f"`{profile}`", *said_of(validated(profile, None, tasks)))
    for temper in TEMPERS:
        yield row(f"the other policy, {temper.name}", *said_of(validated("clean", temper, tasks)))


def validated(profile: str, temper: Temper | None, tasks: int) -> Mapping[str, Any]:
    """Run the designs under a profile or on the other policy, and validate the run."""
    with tempfile.TemporaryDirectory() as scratch:
        with nullcontext() if temper is None else in_the_tunnels_place(temper):
            folder = folder_of_run(DESIGNS, f"arithmetic(size={tasks})", (profile,), scratch)
        predicted = predict(folder)
        register(folder, predicted.prediction)
        return validity(folder, predicted)


def said_of(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells that say what a validation found."""
    tau, pairs, gaps = found["tau"], found["pairs"], found["differences"]
    return (
        found["verdict"],
        f"{len(pairs)} of {found['pairs_in_all']}",
        str(sum(pair["misplaced"] for pair in pairs)),
        "–" if tau is None else f"{tau['value']:.2f} [{tau['low']:.2f}, {tau['high']:.2f}]",
        f"{max(abs(gap['difference']['value']) for gap in gaps if gap['measure'] == 'accuracy'):.3f}",
        f"{sum(gap['off'] for gap in gaps)} of {len(gaps)}",
    )


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"validity": lambda share: table(round(share * TASKS))})
