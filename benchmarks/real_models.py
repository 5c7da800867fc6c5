"""Puts a validated run of a real model into the tables of real models: what its loops did, and how well the tunnel predicted it.

python benchmarks/real_models.py RUN --register [--in FOLDER]
python benchmarks/real_models.py RUN [--write] [--in FOLDER]

--register copies what `learn profile RUN --ahead N` predicts beside docs/validity.md, gives it a row there, so that both can be
committed before the tasks are run, and prints the name of the file. Otherwise `learn profile RUN --held-out` comes before: it holds
a prediction against the run. Markdown to stdout; --write adds the rows to docs/validity.md and copies the prediction beside it.
A registered prediction keeps its file and its row, whatever came of it: only the row of the same prediction is replaced. The second
table shows the last run of each model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from validity import said_of

from pages import arguments_of, block, head, row, write_block
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.validate.doc import VALIDITY
from whichloop.experiments.validate.prediction import FOLDER, PREDICTION
from whichloop.metrics.statistics import Interval
from whichloop.protocol import StopReason
from whichloop.runs.folders import run_folder
from whichloop.runs.manifest import Manifest, read_manifest
from whichloop.runs.store.files import read_document
from whichloop.text.numbers import interval

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
BLOCK = "real models"
HEADS = (
    "model|suite, tasks|guessing solves|prediction|verdict|pairs told apart|misplaced|tau-b|largest gap of accuracy|off",
    "model|loop|accuracy|held-out tasks alone|predicted|solved, by template|without a tool call|at the limit",
)
"""The tables: of validations, and of what the loops scored beside what was predicted."""
DIGEST_CHARS = 12
GUESSING = re.compile(r"guessing: (.+?) \(.*?\) passes ([0-9.]+)%")
"""What the check of a suite says of an agent that does no work, where it solves too much."""
LIMITED = (StopReason.FORCED.value, StopReason.MAX_STEPS.value)
"""Why a trial ended whose steps were used up."""
PREDICTIONS = "predictions"
"""The folder beside the page that keeps the predictions."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="a validated run: its directory, its name, or latest")
    parser.add_argument("--in", type=Path, default=Path("runs"), dest="folder", help="folder of the runs (default: runs)")
    parser.add_argument("--register", action="store_true", help="copy the prediction of a run beside docs/validity.md")
    given = parser.parse_args(arguments)
    folder = run_folder(given.run, given.folder)
    if given.register:
        print(_registered(folder))
        return
    tables = with_rows(block(PAGE, BLOCK), rows(folder))
    print(tables)
    if given.write:
        write_block(PAGE, BLOCK, tables)
        _copied(folder)


def _copied(folder: Path) -> Path:
    """Copy the prediction of a run beside the page, and return the copy. Raises FileNotFoundError if there is none."""
    predicted = folder / FOLDER / PREDICTION
    copy = PAGE.parent / PREDICTIONS / f"{read_document(predicted)['digest'][:DIGEST_CHARS]}.json"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(predicted.read_bytes())
    return copy


def _registered(folder: Path) -> Path:
    """Copy the prediction of a run beside the page, give it a row if it has none, and return the copy."""
    copy, tables = _copied(folder), block(PAGE, BLOCK)
    if _link(copy.stem) not in tables:
        predicted, manifest = read_document(copy), read_manifest(folder)
        told = _told(manifest, _model(manifest), copy.stem, len(predicted["fitted"]), len(predicted["held_out"]))
        write_block(PAGE, BLOCK, with_rows(tables, ([row(*told, "not held against a run yet", *["–"] * 5)], [])))
    return copy


def rows(folder: Path) -> tuple[list[str], ...]:
    """Return the rows of a run in each of the tables. Raises FileNotFoundError for a run that is not validated."""
    run = results(folder)
    model = _model(run.manifest)
    found = read_document(folder / FOLDER / VALIDITY)
    told = _told(run.manifest, model, found["prediction"][:DIGEST_CHARS], found["fitted_tasks"], found["held_out_tasks"])
    return [row(*told, *said_of(found))], list(_scores(run, model, found))


def _model(manifest: Manifest) -> str:
    """Return the model as the tables name it: a local one's weights, and whether it was constrained and its prompts optimized."""
    (name,) = {arm.model for arm in manifest.arms}
    weights = manifest.weights.get(name)
    named = f"`{name}`"
    if weights is not None:
        named = f"`{name.partition(':')[0]}` ({weights['file']}, {weights['sha256'][:DIGEST_CHARS]})"
    constrained = ", constrained" if manifest.config.get("provider", {}).get("constrain") else ""
    return named + constrained + (", with optimized prompts" if any(arm.program for arm in manifest.arms) else "")


def _link(prediction: str) -> str:
    return f"[`{prediction}`]({PREDICTIONS}/{prediction}.json)"


def _told(manifest: Manifest, model: str, prediction: str, fitted: int, held_out: int) -> list[str]:
    """Return the cells that are known before the tasks are run. `fitted`, `held_out`: numbers of tasks."""
    suite = manifest.suite
    solves = next(filter(None, map(GUESSING.match, manifest.suite_problems)), None)
    guessing = "few" if solves is None else f"{float(solves[2]) / 100:.2f} ({solves[1]})"
    return [model, f"{suite.name} {suite.version}, {fitted} fitted and {held_out} held out", guessing, _link(prediction)]


def _scores(run: Results, model: str, found: Mapping[str, Any]) -> Iterator[str]:
    arms = {arm.info.arm: arm for arm in run.comparison.arms}
    for loop in found["loops"]:
        arm = arms[loop["arm"]]
        trials = [record for record in run.records if record.arm == loop["arm"] and record.status == "scored"]
        of_template: dict[str, list[float]] = {}
        for record in trials:
            of_template.setdefault(record.template, []).append(record.accuracy)
        shares = [arm.summary.accuracy, *(Interval(**loop[side]) for side in ("real", "predicted"))]
        solved = ", ".join(f"{name} {sum(one):g} of {len(one)}" for name, one in sorted(of_template.items()))
        counts = (sum(record.tool_calls == 0 for record in trials), sum(record.stop in LIMITED for record in trials))
        of_all = (f"{count} of {len(trials)}" for count in counts)
        yield row(model, f"`{arm.info.loop}`", *(interval(share, 2) for share in shares), solved, *of_all)


def with_rows(tables: str, new: tuple[list[str], ...]) -> str:
    """Return the tables with the rows in them, in place of those of the same prediction in the first, and of the same model."""
    renewed = []
    for place, (columns, rows) in enumerate(zip(HEADS, new, strict=True)):
        names, rule = head(*columns.split("|"))
        same = 0 if place else 3  # the cell that names the model, or the prediction
        replaced = {row.split(" | ")[same] for row in rows}
        below = takewhile(lambda line: line.startswith("|"), tables.partition(f"{names}\n")[2].splitlines()[1:])
        kept = [row for row in below if row.split(" | ")[same] not in replaced]
        renewed.append("\n".join([names, rule, *sorted([*kept, *rows], key=lambda row: row.split(" | ")[0])]))
    return "\n\n".join(renewed)


if __name__ == "__main__":
    main()
