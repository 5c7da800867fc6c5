"""How well the tunnel predicts runs of its own model under a profile that is unknown to the fit: what the fit and noise take away.

python benchmarks/validity.py [--share S] [--write]

Each row is a run of the five designs on `arithmetic` under a built-in profile, validated as `whichloop learn profile --held-out`
does it. Markdown to stdout; --write renews the table in docs/validity.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from comparing import DESIGNS, folder_of_run
from pages import head, make_tables, row
from whichloop.experiments.validate.prediction import ValidationRequest, predict, register
from whichloop.experiments.validate.validity import validity

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
PROFILES = ("native-2024", "text-2024", "flaky-format", "flaky-tools", "forgetful", "stubborn")
TASKS = 240


def table(share: float) -> Iterator[str]:
    """Return the table of docs/validity.md, line by line."""
    tasks = round(share * TASKS)
    yield f"Runs of the five designs on {tasks} tasks of `arithmetic`, half of them held out; brackets are 95 % intervals."
    yield ""
    columns = ("run under", "verdict", "pairs told apart", "misplaced", "tau-b", "largest gap of accuracy")
    yield from head(*columns, "off")
    for profile in PROFILES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = folder_of_run(DESIGNS, f"arithmetic(size={tasks})", (profile,), scratch)
            predicted = predict(folder, ValidationRequest())
            register(folder, predicted.prediction)
            yield row(f"`{profile}`", *said_of(validity(folder, predicted)))


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
    make_tables(__doc__, PAGE, {"validity": table})
