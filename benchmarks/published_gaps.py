"""Whether the tunnel predicts a published gap: native calls against calls in text of real models, on BFCL's multi-turn tasks.

python benchmarks/published_gaps.py predict DIR [--size N]
python benchmarks/published_gaps.py score DIR --prediction FILE [--write]

DIR is a clone of github.com/HuanzhiMao/BFCL-Result with the results of 2024-12-29, or a folder that has two of their files,
`2024-12-29/score/data_live.csv` and `data_multi_turn.csv`. `predict` reads the first alone: what each model, asked in both forms,
does wrong on single-turn questions. It makes a fault profile of that for each model and form, runs a loop of that form under it,
and writes the gaps of accuracy to docs/predictions. `score` holds a prediction against the second file. --write renews the tables
in docs/validity.md.
"""

from __future__ import annotations

import csv
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from comparing import compared
from pages import arguments_of, head, row, write_block
from whichloop.experiments.validate.prediction import prediction_digest
from whichloop.models.profiles import Form, Profile, load_profile
from whichloop.runs.store.files import read_document, write_document

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
DATE = "2024-12-29"
SUITE = "errands"
"""Its tasks take 6.1 calls on average, BFCL's 200 base tasks 5.7; all are judged by the state that they leave."""
SIZE = 480
LOOPS: Mapping[Form, str] = {
    "native": "bare(decision_format=native, max_consecutive_errors=none)",
    "text": "react_extract(extract=false)",
}
"""They do as BFCL's own loop does: results and errors of tools are shown, and a reply in which no call can be read is the last."""
ENDINGS: Mapping[Form, str] = {"native": " (FC)", "text": " (Prompt)"}
"""How the leaderboard marks a model by its form."""
MIXES: Mapping[Form, str] = {"native": "native-2024-median", "text": "text-2024-median"}
"""The profiles that say how a model's wrong replies are shared among kinds of fault."""
UNSEEN = "decision.repeated_call"
"""In the profile of native calls alone, from another source: no single-turn question shows it."""
NEVER_FINISH = "decision.never_finish"
QUESTIONS = {"Python Simple AST": 258, "Python Multiple AST": 1053}
"""Column → its number of questions. Those that want several calls at once are left out: a loop may make them one by one."""
IRRELEVANT = "Irrelevance Detection"
BASE = "Base"
PERCENTAGE = re.compile(r"\d+(\.\d+)?%")
RESAMPLES, SEED = 10_000, 0
Rows = Mapping[str, Mapping[Form, Mapping[str, str]]]
"""Model → form → row."""
Values = NDArray[np.float64]


def read_pairs(folder: Path, file: str) -> Rows:
    """Read the rows of the models that were asked in both forms."""
    with (folder / DATE / "score" / file).open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found: dict[str, dict[Form, Mapping[str, str]]] = {}
    for each in rows:
        for form, ending in ENDINGS.items():
            if each["Model"].endswith(ending):
                name = re.sub(r"-fc$", "", each["Model"].removesuffix(ending).lower())
                found.setdefault(name, {})[form] = each
    return {name: forms for name, forms in sorted(found.items()) if len(forms) == len(ENDINGS)}


def share(cells: Mapping[str, str], column: str) -> float:
    """Return a cell such as `81.78%` as a share. Raises ValueError for any other."""
    return float(cells[column].removesuffix("%")) / 100


def right_calls(cells: Mapping[str, str]) -> float:
    """Return the share of right replies to the questions that want one call."""
    return sum(count * share(cells, column) for column, count in QUESTIONS.items()) / sum(QUESTIONS.values())


def fitted(name: str, form: Form, cells: Mapping[str, str]) -> Profile:
    """Return the profile of one model in one form.

    Its wrong replies are shared among kinds of fault as those of the form's median model. A call where no function fits is taken
    for one of a model that does not finish, as far as the rates add up to 1.
    """
    mix = {kind: rate for kind, rate in load_profile(MIXES[form]).rates.items() if kind != UNSEEN}
    wrong = 1 - right_calls(cells)
    rates = {kind: round(wrong * rate / sum(mix.values()), 4) for kind, rate in mix.items()}
    rates[NEVER_FINISH] = round(min(1 - share(cells, IRRELEVANT), 1 - sum(rates.values())), 4)
    return Profile(name=f"{name}-{form}", rates=rates)


def predicted(pairs: Rows, size: int) -> dict[str, Any]:
    """Return what the tunnel predicts, as JSON."""
    accuracies = {form: _accuracies(pairs, form, size) for form in LOOPS}
    models = {
        name: {form: {"single turn": right_calls(cells), "rates": fitted(name, form, cells).rates} for form, cells in forms.items()}
        | {"predicted": {form: accuracies[form][name] for form in LOOPS}}
        for name, forms in pairs.items()
    }
    content = {"of": f"BFCL-Result {DATE}, {BASE}", "suite": f"{SUITE}(size={size})", "loops": dict(LOOPS), "models": models}
    return content | {"digest": prediction_digest(content)}


def _accuracies(pairs: Rows, form: Form, size: int) -> dict[str, float]:
    """Return model → accuracy of the form's loop under the model's profile."""
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for name, forms in pairs.items():
            profile = fitted(name, form, forms[form])
            files.append(Path(scratch) / f"{profile.name}.toml")
            files[-1].write_text(profile.to_toml(), encoding="utf-8")
        suite, runs = f"{SUITE}(size={size})", Path(scratch) / "runs"
        arms = compared([LOOPS[form]], suite, [*map(str, files)], runs).comparison.arms
    found = {arm.info.profile.removesuffix(f"-{form}"): arm.summary.accuracy for arm in arms}
    return {name: mean.value for name, mean in found.items() if mean is not None}


def tables(prediction: Mapping[str, Any], published: Rows) -> Iterator[str]:
    """Return the tables of docs/validity.md, line by line. Raises ValueError where fewer than three models are in both."""
    scored = {name for name, forms in published.items() if all(PERCENTAGE.fullmatch(cells[BASE]) for cells in forms.values())}
    known = {name: model for name, model in prediction["models"].items() if name in scored}
    if len(known) < 3:
        raise ValueError(f"{len(known)} of the predicted models have published scores in both forms")
    truth = _gaps([{form: share(published[name][form], BASE) for form in LOOPS} for name in known])
    ways = {
        "the scripted model": _gaps([model["predicted"] for model in known.values()]),
        "the single-turn gap itself": _gaps([{form: model[form]["single turn"] for form in LOOPS} for model in known.values()]),
        "no gap": np.zeros(len(truth)),
        "a constant: the mean gap of the other models": (truth.sum() - truth) / (len(truth) - 1),
    }
    errors = {way: np.abs(guess - truth) for way, guess in ways.items()}
    constant = list(errors.values())[-1]
    yield f"{len(truth)} models of {DATE}; brackets are 95 % intervals, bootstrapped over models."
    yield ""
    yield from head("predicted by", "Spearman", "mean absolute error", "the same, less the constant's", "better form named")
    for place, (way, guess) in enumerate(ways.items()):
        ranked = interval(_spearman, guess, truth) if place < 2 else "–"
        less = "–" if way == list(ways)[-1] else interval(np.mean, errors[way] - constant)
        named = "–" if way == "no gap" else f"{int(np.sum(guess * truth > 0))} of {int(np.sum(truth != 0))}"
        yield row(way, ranked, interval(np.mean, errors[way]), less, named)
    yield ""
    yield from head("model", "gap predicted", "gap published")
    for name, guess, gap in sorted(zip(known, ways["the scripted model"], truth, strict=True), key=lambda each: -each[2]):
        yield row(f"`{name}`", f"{guess:+.3f}", f"{gap:+.3f}")


def _gaps(accuracies: Sequence[Mapping[Form, float]]) -> Values:
    return np.array([each["native"] - each["text"] for each in accuracies])


def _spearman(one: Values, other: Values) -> float:
    return float(spearmanr(one, other).statistic) if np.ptp(one) and np.ptp(other) else float("nan")


def interval(statistic: Callable[..., float], *columns: Values) -> str:
    """Return a statistic of models with its 95 % bootstrap interval (percentiles). `columns`: one value for each model."""
    draws = np.random.default_rng(SEED).integers(0, len(columns[0]), (RESAMPLES, len(columns[0])))
    low, high = np.nanquantile([statistic(*(column[draw] for column in columns)) for draw in draws], (0.025, 0.975))
    return f"{statistic(*columns):.3f} [{low:.3f}, {high:.3f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("what", choices=("predict", "score"))
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--size", type=int, default=SIZE, help="tasks of each run of the tunnel")
    parser.add_argument("--prediction", type=Path, help="the file to hold against the published scores")
    given = parser.parse_args(arguments)
    if given.what == "predict":
        made = predicted(read_pairs(given.folder, "data_live.csv"), given.size)
        path = PAGE.parent / "predictions" / f"{made['digest'][:12]}.json"
        write_document(path, made)
        print(path)
        return
    prediction = read_document(given.prediction)
    text = "\n".join(tables(prediction, read_pairs(given.folder, "data_multi_turn.csv")))
    print(text)
    if given.write:
        write_block(PAGE, "published gaps", text)


if __name__ == "__main__":
    main()
