"""Puts a validated run of a real model into the tables of real models: what its loops did, and how well the tunnel predicted it.

python benchmarks/real_models.py RUN --register [--in FOLDER]
python benchmarks/real_models.py RUN … [--write] [--in FOLDER]

--register copies what `learn profile RUN --ahead N` predicts beside docs/validity.md, gives it a row there, so that both can be
committed before the tasks are run, and prints the name of the file. Otherwise `learn profile RUN --held-out` comes before: it holds
a prediction against the run. Markdown to stdout; --write adds the rows to docs/validity.md and copies the prediction beside it.
A registered prediction keeps its file and its row, whatever came of it: only the row of the same prediction is replaced. The second
table shows the last run of each model.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import block, write_block
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.validate.doc import VALIDITY
from whichloop.experiments.validate.prediction import FOLDER, PREDICTION
from whichloop.metrics.statistics import Interval
from whichloop.protocol import StopReason
from whichloop.runs.folders import run_folder
from whichloop.runs.manifest import Manifest, read_manifest
from whichloop.runs.store.files import RunError, read_document
from whichloop.text.numbers import interval

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
BLOCK = "real models"
HEADS = (
    (
        "| model | suite, tasks | guessing solves | prediction | verdict | pairs told apart | misplaced | tau-b "
        "| largest gap of accuracy | off |",
        "|---|---|---|---|---|---:|---:|---|---:|---:|",
    ),
    (
        "| model | loop | accuracy | held-out tasks alone | predicted | solved, by template | without a tool call | at the limit |",
        "|---|---|---|---|---|---|---:|---:|",
    ),
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a validated run: its directory, its name, or latest")
    parser.add_argument("--in", type=Path, default=Path("runs"), dest="folder", help="folder of the runs (default: runs)")
    parser.add_argument("--write", action="store_true", help="add the rows to docs/validity.md")
    parser.add_argument("--register", action="store_true", help="copy the prediction of a run beside docs/validity.md")
    options = parser.parse_args(arguments)
    if options.register and (options.write or len(options.runs) > 1):
        parser.error("--register takes one run, and no --write")
    try:
        folders = [run_folder(run, options.folder) for run in options.runs]
        if options.register:
            print(_registered(folders[0]))
            return
        tables = block(PAGE, BLOCK)
        for folder in folders:
            tables = with_rows(tables, rows(folder))
        print(tables.strip())
        if options.write:
            write_block(PAGE, BLOCK, tables)
            for folder in folders:
                _copied(folder)
    except (RunError, OSError) as error:
        sys.exit(f"error: {error}")


def _copied(folder: Path) -> Path:
    """Copy the prediction of a run beside the page, and return the copy. Raises RunError if there is none."""
    predicted = folder / FOLDER / PREDICTION
    try:
        name = read_document(predicted)["digest"][:DIGEST_CHARS]
    except FileNotFoundError:
        raise RunError(f"{folder} has no prediction: whichloop learn profile {folder} --ahead N") from None
    beside = PAGE.parent / PREDICTIONS
    beside.mkdir(exist_ok=True)
    copy = beside / f"{name}.json"
    copy.write_bytes(predicted.read_bytes())
    return copy


def _registered(folder: Path) -> Path:
    """Copy the prediction of a run beside the page, give it a row if it has none, and return the copy. Raises RunError."""
    copy = _copied(folder)
    tables = block(PAGE, BLOCK)
    if _link(copy.stem) not in tables:
        predicted, manifest = read_document(copy), read_manifest(folder)
        told = _told(manifest, _model(manifest, folder), copy.stem, len(predicted["fitted"]), len(predicted["held_out"]))
        row = f"| {' | '.join([*told, 'not held against a run yet', *['–'] * 5])} |"
        write_block(PAGE, BLOCK, with_rows(tables, ([row], [])))
    return copy


def rows(folder: Path) -> tuple[list[str], ...]:
    """Return the rows of a run in each of the tables. Raises RunError for a run that is not validated, or of several models."""
    run = results(folder)
    model = _model(run.manifest, folder)
    try:
        found = read_document(folder / FOLDER / VALIDITY)
    except FileNotFoundError:
        raise RunError(f"{folder} is not validated: whichloop learn profile {folder} --held-out") from None
    return [_validation(run, model, found)], list(_scores(run, model, found))


def _model(manifest: Manifest, folder: Path) -> str:
    """Return the model as the tables name it: a local one's weights, and whether it was constrained and its prompts optimized."""
    models = {arm.model for arm in manifest.arms}
    if len(models) != 1:
        raise RunError(f"{folder}: a row is of one model, and this run has {', '.join(sorted(models))}")
    (name,) = models
    weights = manifest.weights.get(name)
    named = f"`{name}`" if weights is None else f"`{name.partition(':')[0]}` ({weights.file}, {weights.sha256[:DIGEST_CHARS]})"
    constrained = ", constrained" if manifest.config.get("provider", {}).get("constrain") else ""
    return named + constrained + (", with optimized prompts" if any(arm.program for arm in manifest.arms) else "")


def guessing(manifest: Manifest) -> str:
    """Return which agent that does no work solves more of the run's tasks than the check of the suite allows, and what share."""
    found = next(filter(None, map(GUESSING.match, manifest.suite_problems)), None)
    return "few" if found is None else f"{float(found[2]) / 100:.2f} ({found[1]})"


def _link(prediction: str) -> str:
    return f"[`{prediction}`]({PREDICTIONS}/{prediction}.json)"


def _told(manifest: Manifest, model: str, prediction: str, fitted: int, held_out: int) -> list[str]:
    """Return the cells that are known before the tasks are run. `fitted`, `held_out`: numbers of tasks."""
    suite = manifest.suite
    tasks = f"{suite.name} {suite.version}, {fitted} fitted and {held_out} held out"
    return [model, tasks, guessing(manifest), _link(prediction)]


def _validation(run: Results, model: str, found: Mapping[str, Any]) -> str:
    tau = found["tau"]
    gaps = [abs(gap["difference"]["value"]) for gap in found["differences"] if gap["measure"] == "accuracy"]
    prediction = str(found["prediction"][:DIGEST_CHARS])
    cells = (
        *_told(run.manifest, model, prediction, found["fitted_tasks"], found["held_out_tasks"]),
        found["verdict"],
        f"{len(found['pairs'])} of {found['pairs_in_all']}",
        str(sum(pair["misplaced"] for pair in found["pairs"])),
        "–" if tau is None else f"{tau['value']:.2f} [{tau['low']:.2f}, {tau['high']:.2f}]",
        f"{max(gaps):.3f}",
        f"{sum(gap['off'] for gap in found['differences'])} of {len(found['differences'])}",
    )
    return f"| {' | '.join(cells)} |"


def _scores(run: Results, model: str, found: Mapping[str, Any]) -> Iterator[str]:
    arms = {arm.info.arm: arm for arm in run.comparison.arms}
    for loop in found["loops"]:
        arm = arms[loop["arm"]]
        trials = [record for record in run.records if record.arm == loop["arm"] and record.status == "scored"]
        templates = sorted({record.template for record in trials})
        of_template = [[record.accuracy for record in trials if record.template == name] for name in templates]
        solved = ", ".join(f"{name} {sum(one):g} of {len(one)}" for name, one in zip(templates, of_template, strict=True))
        cells = (
            model,
            f"`{arm.info.loop}`",
            interval(arm.summary.accuracy, 2),
            interval(Interval(**loop["real"]), 2),
            interval(Interval(**loop["predicted"]), 2),
            solved,
            f"{sum(record.tool_calls == 0 for record in trials)} of {len(trials)}",
            f"{sum(record.stop in LIMITED for record in trials)} of {len(trials)}",
        )
        yield f"| {' | '.join(cells)} |"


def with_rows(tables: str, new: tuple[list[str], ...]) -> str:
    """Return the tables with the rows in them, in place of those of the same prediction in the first, and of the same model."""
    renewed = []
    for place, ((head, rule), rows) in enumerate(zip(HEADS, new, strict=True)):
        same = 0 if place else 3  # the cell that names the model, or the prediction
        replaced = {row.split(" | ")[same] for row in rows}
        kept = [row for row in _rows_below(tables, head) if row.split(" | ")[same] not in replaced]
        renewed.append("\n".join([head, rule, *sorted([*kept, *rows], key=lambda row: row.split(" | ")[0])]))
    return "\n\n".join(renewed)


def _rows_below(text: str, head: str) -> list[str]:
    lines = text.partition(f"{head}\n")[2].splitlines()[1:]
    return lines[: next((place for place, line in enumerate(lines) if not line.startswith("|")), len(lines))]


if __name__ == "__main__":
    main()
