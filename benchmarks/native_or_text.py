"""Harness or model, on BFCL's published results: models asked in three ways, crossed; Markdown to stdout.

python benchmarks/native_or_text.py RESULTS --questions FOLDER [--write]

RESULTS is a day of github.com/HuanzhiMao/BFCL-Result (docs/measures.md shows 2024-08-11 at commit b4adfc9), FOLDER the questions
of that day: `berkeley-function-call-leaderboard/data` of github.com/ShishirPatil/gorilla at de8307b. --write renews the table in
docs/measures.md.

The harnesses: `native` offers the tools in the provider's API; `text` describes them in the prompt, and reads nothing but the list
of calls that it asks for; `text, pardoned` is the same replies, and reads calls in a fence or in prose too. The first two have
BFCL's own scores, of 1,000 questions whose calls are held against its answer key; the third adds those replies of the second that
the answer key accepts once they are read.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leaderboard import of_harness
from measures import PAGE, as_markdown
from published_replies import CATEGORIES, PROSE, Question, is_failure, json_rows, kinds_of, read_questions, replies_of

from pages import write_block
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.metrics.pairs import Pair, paired_test, pairs_of_family
from whichloop.metrics.statistics import ALPHA, accuracy_interval
from whichloop.metrics.summary import PRIMARY, TaskValues
from whichloop.text.numbers import interval, p_value
from whichloop.text.table import Table

NATIVE, TEXT, PARDONED = HARNESSES = ("native", "text", "text, pardoned")
NATIVE_FOLDERS = ("{}-FC", "{}-FC-Auto")
"""Where a model's native results are; `Auto` leaves it to the model whether it calls, as the others do."""
MARGIN = 0.05
Scores = Mapping[str, float | None]
"""Question → 1 or 0; None where the provider gave no reply."""


def models(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Return each model with results of both kinds: its name, and its folders below `result`, native and text."""
    for text in sorted((folder / "result").iterdir()):
        native = next((text.with_name(name.format(text.name)) for name in NATIVE_FOLDERS if _has(text, name)), None)
        if native is not None:
            yield text.name, native, text


def _has(text: Path, name: str) -> bool:
    return text.with_name(name.format(text.name)).is_dir()


def published(folder: Path) -> Scores:
    """Return BFCL's scores of the replies in a model's folder."""
    scores: dict[str, float | None] = {}
    for category in CATEGORIES:
        replies = replies_of(folder, category)
        lines = json_rows(folder.parents[1] / "score" / folder.name / f"{category}_score.json")
        total = next(lines)["total_count"]
        if total != len(replies):
            raise ValueError(f"{folder}: {category}: {len(replies)} replies, and {total} scores")
        lost = {line["id"] for line in lines}  # counted from 1
        for place, reply in enumerate(replies, 1):
            scores[reply["id"]] = None if is_failure(reply["result"]) else float(place not in lost)
    return scores


def pardoned(folder: Path, strict: Scores, questions: Mapping[str, Question]) -> Scores:
    """Return the scores of a folder's replies in text if calls in a fence or in prose are read too."""
    scores = dict(strict)
    for reply in (reply for category in CATEGORIES for reply in replies_of(folder, category)):
        if strict[reply["id"]] == 0:
            kinds = kinds_of(reply["result"], questions[reply["id"]], "text")
            scores[reply["id"]] = float(bool(kinds) and kinds <= {"wire.fenced", PROSE})
    return scores


def imported(scores: Mapping[tuple[str, str], Scores], runs: Path) -> Results:
    """Import the scores, (harness, model) → question → score, as one comparison."""
    table = runs / "bfcl.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("arm", "task", "score", "status"))
        for (harness, model), of_arm in scores.items():
            for task, score in of_arm.items():
                writer.writerow((f"{harness}/{model}", task, score, "errored" if score is None else "scored"))
    return results(import_files([table], ImportRequest(), runs=runs).folder)


def of_models(scores: Mapping[tuple[str, str], Scores]) -> str:
    """Each model's accuracy in each harness, best first, and its differences; p by Holm over all pairs of the table."""
    known = {key: {task: [score] for task, score in of_arm.items() if score is not None} for key, of_arm in scores.items()}
    values = {key: TaskValues(of_arm, dict.fromkeys(of_arm, "")) for key, of_arm in known.items()}
    means = {key: accuracy_interval(list(of_arm.values.values())) for key, of_arm in values.items()}
    names = sorted({model for _, model in scores}, key=lambda model: -means[NATIVE, model].value)
    tests = {
        (model, harness): paired_test(PRIMARY, values[NATIVE, model], values[harness, model], MARGIN)
        for model in names
        for harness in (TEXT, PARDONED)
    }
    found = {(pair.a, pair.b): pair for pair in pairs_of_family(PRIMARY, tests, ALPHA)}
    lines = [
        (
            model,
            *(interval(means[harness, model], 3) for harness in HARNESSES),
            *(_told(found[model, harness]) for harness in (TEXT, PARDONED)),
        )
        for model in names
    ]
    head = ("model", *HARNESSES, *(f"{NATIVE} minus {harness}; p (Holm), verdict" for harness in (TEXT, PARDONED)))
    return as_markdown(Table("", head, tuple(lines)))


def _told(pair: Pair) -> str:
    """Return a difference, its p and the verdict on the first of the two."""
    return f"{interval(pair.difference, 3)}; {p_value(pair.p_holm)}, {pair.verdict.word}"


def tables_of(scores: Mapping[tuple[str, str], Scores], runs: Path) -> str:
    """The page's tables: native against each reading of the text, and each model."""
    parts = []
    for harness in (TEXT, PARDONED):
        two = {key: of_arm for key, of_arm in scores.items() if key[0] in (NATIVE, harness)}
        parts += [f"`{NATIVE}` and `{harness}`, {len(two) // 2} models:", of_harness(imported(two, runs), "harness", "harnesses")]
    folded = ["<details><summary>Each model</summary>", of_models(scores), "</details>"]
    return "\n\n".join([*parts, *folded])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=Path, required=True, help="folder of BFCL's questions, with possible_answer in it")
    parser.add_argument("--write", action="store_true", help="renew the table in docs/measures.md")
    given = parser.parse_args(arguments)
    try:
        questions = read_questions(given.questions)
        scores: dict[tuple[str, str], Scores] = {}
        for model, native, text in models(given.folder):
            scores[NATIVE, model], scores[TEXT, model] = published(native), published(text)
            scores[PARDONED, model] = pardoned(text, scores[TEXT, model], questions)
    except (OSError, ValueError) as error:
        sys.exit(f"native_or_text.py: {error}")
    if len(scores) < 2 * len(HARNESSES):
        sys.exit(f"native_or_text.py: {given.folder}: results of {len(scores) // len(HARNESSES)} models in both ways; 2 are needed")
    with tempfile.TemporaryDirectory() as runs:
        page = tables_of(scores, Path(runs))
    print(page)
    if given.write:
        write_block(PAGE, "native_or_text", page)


if __name__ == "__main__":
    main()
