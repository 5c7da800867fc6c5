"""What terminal-bench's public results say: agents that share a model, and agents crossed with models; Markdown to stdout.

python benchmarks/leaderboard.py FOLDER [--model NAME] [--write]

FOLDER is a clone of github.com/laude-institute/terminal-bench-leaderboard (docs/measures.md shows commit 8e1925a). The folder of
a submission is called DATE_AGENT_MODEL; it holds five runs of the 80 tasks of terminal-bench-core 0.1.1. As on the leaderboard, a
trial that its tests could not judge is not solved. --write renews the table in docs/measures.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from measures import PAGE, as_markdown

from pages import write_block
from whichloop.experiments.compare.harness_tables import harness_sentences, harness_tables
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.summary import PRIMARY
from whichloop.text.numbers import interval, p_value
from whichloop.text.table import Table

SHARED_MODEL = "claude-4-sonnet"
"""The model that most agents of the leaderboard ran with."""


@dataclass(frozen=True)
class Submission:
    """The runs of one agent with one model."""

    folder: Path
    agent: str
    model: str


def submissions(folder: Path) -> list[Submission]:
    """Return what a clone holds; a folder whose name does not tell agent and model is left out."""
    named = [(path, path.name.split("_")) for path in sorted(folder.glob("results/*/*")) if path.is_dir()]
    return [Submission(path, parts[1], parts[2].replace(".", "-")) for path, parts in named if len(parts) == 3]


def crossed(found: Sequence[Submission]) -> list[Submission]:
    """Return the agents that ran with more than one model, with the models that all of these ran with."""
    models: dict[str, set[str]] = {}
    for one in found:
        models.setdefault(one.agent, set()).add(one.model)
    best: tuple[int, Collection[str], Collection[str]] = (0, (), ())
    for shared in {frozenset(a & b) for a in models.values() for b in models.values()}:
        agents = [agent for agent, known in models.items() if shared <= known]
        if min(len(agents), len(shared)) > 1:
            best = max(best, (len(agents) * len(shared), sorted(agents), sorted(shared)))
    return [one for one in found if one.agent in best[1] and one.model in best[2]]


def compared(wanted: Sequence[Submission], runs: Path) -> Results:
    """Import submissions as one comparison."""
    request = ImportRequest(
        reading=ReadingOptions(errors_as_failures=True),
        arms=[one.agent for one in wanted],
        models=[one.model for one in wanted],
    )
    return results(import_files([one.folder for one in wanted], request, runs=runs).folder)


def accuracy_of(arm: ArmResult) -> float:
    """Return the accuracy of an agent, 0 where no trial was scored."""
    return arm.summary.accuracy.value if arm.summary.accuracy is not None else 0.0


def of_agents(found: Results) -> str:
    """The agents, best first, each with its difference to the best: intervals of 95 %, and adjusted over all pairs."""
    arms = sorted(found.comparison.arms, key=lambda arm: -accuracy_of(arm))
    best = arms[0].info.arm
    pairs = [pair for pair in found.comparison.pairs if pair.metric == PRIMARY and best in (pair.a, pair.b)]
    against = {pair.b: pair for pair in (pair if pair.a == best else pair.turned for pair in pairs)}
    rows = []
    for arm in arms:
        pair = against.get(arm.info.arm)
        told = ("–", "–", "–")
        if pair is not None:
            told = (interval(pair.turned.difference, 3), p_value(pair.p_holm), pair.turned.verdict.word)
        statuses = [record.status for record in found.records if record.arm == arm.info.arm]
        trials = f"{statuses.count('scored')} of {len(statuses)}"
        rows.append((arm.info.loop, interval(arm.summary.accuracy, 3), trials, *told))
    columns = ("agent", "accuracy", "trials that there are", f"minus {arms[0].info.loop}", "p (Holm, all pairs)", "verdict")
    return as_markdown(Table("", columns, tuple(rows)))


def of_pairs(found: Results) -> str:
    """Each pair of agents, the more accurate one first: two agents by themselves, and with p adjusted over all pairs."""
    accuracy = {arm.info.arm: accuracy_of(arm) for arm in found.comparison.arms}
    loops = {arm.info.arm: arm.info.loop for arm in found.comparison.arms}
    pairs = [pair for pair in found.comparison.pairs if pair.metric == PRIMARY]
    turned = [pair if accuracy[pair.a] >= accuracy[pair.b] else pair.turned for pair in pairs]
    turned.sort(key=lambda pair: (-accuracy[pair.a], -accuracy[pair.b]))
    rows = [
        (loops[pair.a], loops[pair.b], interval(pair.difference, 3), p_value(pair.p), p_value(pair.p_holm), pair.verdict.word)
        for pair in turned
    ]
    head = ("agent", "minus", "difference, interval adjusted", "p of this pair alone", "p (Holm, all pairs)", "verdict")
    summary = f"<details><summary>All {len(rows)} pairs</summary>"
    return "\n\n".join([summary, as_markdown(Table("", head, tuple(rows))), "</details>"])


def of_harness(found: Results, one: str = "agent", several: str = "agents") -> str:
    """What accuracy varies by where agents and models are crossed. `one`, `several`: what stands for a loop, and for loops."""
    (table,) = harness_tables(found.harness)
    rows = tuple((source.replace("loops", several).replace("loop", one), *rest) for source, *rest in table.rows)
    (sentence,) = harness_sentences(found.harness)
    return "\n\n".join([f"*{sentence.replace('loop', one)}.*", as_markdown(Table("", table.columns, rows))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default=SHARED_MODEL)
    parser.add_argument("--write", action="store_true", help="renew the table in docs/measures.md")
    given = parser.parse_args()
    found = submissions(given.folder)
    sharing = [one for one in found if one.model == given.model]
    if len(sharing) < 2:
        sys.exit(f"leaderboard.py: {given.folder}: {len(sharing)} folders results/*/DATE_AGENT_{given.model}; a comparison needs 2")
    with tempfile.TemporaryDirectory() as runs:
        shared = compared(sharing, Path(runs))
        made = [f"Agents on {given.model}:", of_agents(shared), of_pairs(shared)]
        if both := crossed(found):
            agents, models = (", ".join(sorted({getattr(one, what) for one in both})) for what in ("agent", "model"))
            made += [f"{agents}, each with {models}:", of_harness(compared(both, Path(runs)))]
    text = "\n\n".join(made)
    print(text)
    if given.write:
        write_block(PAGE, "leaderboard", text)


if __name__ == "__main__":
    main()
