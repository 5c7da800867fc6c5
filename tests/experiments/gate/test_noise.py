"""The gate against itself: how often it calls an unchanged loop a regression, and how much each metric differs by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.experiments.gate.conftest import made
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import Rerun, bless, config_again
from whichloop.experiments.gate.noise import SelfCheck, self_check, self_doc
from whichloop.runs.engine.runner import Unwatched

PAIRS = 3


def checked(found: Any, loop: str, runs: Path) -> SelfCheck:
    baseline = bless(found)
    return self_check(baseline, config_again(baseline, Path("b.json"), Rerun(loops=(loop,), runs=runs)), PAIRS, Unwatched(), run)


def test_an_arm_against_itself_has_as_many_outcomes_as_pairs_and_a_row_for_each_metric(ran, tmp_path):
    found = ran(loops=("bare",))
    check = checked(found, "bare", tmp_path)
    assert sum(check.outcomes.values()) == check.pairs == PAIRS
    arms = ("bare/clean", "bare/flaky-tools")
    assert [(each.arm, each.metric) for each in check.noise] == [(arm, name) for arm in arms for name in bless(found).gate.metrics]
    noise = {(each.arm, each.metric): each.floor for each in check.noise}
    assert noise["bare/clean", "accuracy"] == 0 < noise["bare/flaky-tools", "accuracy"]
    assert noise["bare/clean", "tokens"] == 1 < noise["bare/flaky-tools", "tokens"]
    told = self_doc(check)
    assert len(told.tables[0].rows) == len(check.noise)
    assert json.loads(json.dumps(told.data))["pairs"] == told.data["pairs"]
    assert list(tmp_path.iterdir()) == [], "its runs are nobody's"


def test_a_loop_that_draws_at_random_is_noisier(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_random.py").write_text(
        "import random\nfrom dataclasses import dataclass, replace\nfrom whichloop.loops.bare import Bare\n"
        "DRAWN = random.Random(3)\n\n\n@dataclass(frozen=True)\nclass Mine(Bare):\n    async def run(self, *arguments):\n"
        "        end = await super().run(*arguments)\n        return replace(end, answer=-1) if DRAWN.random() < 0.3 else end\n"
    )
    loop = "own_random:Mine"
    check = checked(made(tmp_path, loops=(loop,), profiles=("clean",)), loop, tmp_path)
    assert next(each.floor for each in check.noise if each.metric == "accuracy") > 0.1
