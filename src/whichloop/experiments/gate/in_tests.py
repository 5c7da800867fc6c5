"""The gate within a team's own tests: the value of the pytest plugin's fixture `whichloop_gate`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from whichloop.checks.shared.pytest_items import check_not_async
from whichloop.experiments.compare.run import prepare, run_apart
from whichloop.protocol.names import program_spec
from whichloop.protocol.own_code import raised_in
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions, own_code
from whichloop.runs.trial.watchdog import told_of_exit
from whichloop.text.output import safe_for_others

from .baseline import Baseline, bless_as, read_baseline, read_run
from .ci import annotation, append_summary, error_summary, literal, to_summary, workflow_command
from .doc import gate_doc, title_of
from .judge import GateResult, judge
from .rerun import config_again, prepare_again, project_permissions, run_and_judge

GATE, ANNOTATION = "whichloop_gate", "github_annotation"
"""As the plugin has them, which imports this module where a test asks for the gate, and is above it."""

OWN = ("program", "baseline", "metrics", "accept")
"""Keywords of a call, or of the marker, that are no settings of a comparison."""


@dataclass(frozen=True, slots=True)
class LoopGate:
    """A gate that judges loops against a baseline from within one test."""

    request: pytest.FixtureRequest
    runs: Path
    """Where run directories go."""
    blessed: set[Path]
    """Baselines that this session wrote."""

    def __call__(
        self,
        loop: str | type | None = None,
        *,
        program: str | None = None,
        baseline: str | Path | None = None,
        metrics: Mapping[str, float] | None = None,
        accept: Sequence[str] = (),
        **settings: Any,
    ) -> GateResult:
        """Hold a loop to its baseline, and fail the test unless it passes; return the result.

        `loop`: a name as `--loop` takes it, or a class; `program`: an agent as `--program` takes it; neither runs the baseline's
        own loops, which pyproject.toml has to name. `baseline`: a file [baselines/MODULE.TEST.json beside the test]. `metrics`:
        metric → margin, `accept`: reasons that pass, both beside those of the baseline. All other keywords are settings of a
        comparison: suite, profile, tasks, repeats, seed, model, …; without any the baseline's configuration is run again. Paths are
        relative to pytest's root folder. Bad input fails the test in one line.
        """
        item, marker = self.request.node, self.request.node.get_closest_marker(GATE)
        if marker is not None and marker.args:
            raise pytest.UsageError(f"{item.nodeid}: the marker {GATE} takes keywords only, such as suite='events'")
        defaults = {} if marker is None else marker.kwargs
        given = {"program": program, "baseline": baseline, "metrics": metrics, "accept": accept}
        own: dict[str, Any] = {name: value or defaults.get(name) for name, value in given.items()}
        settings = {name: value for name, value in defaults.items() if name not in OWN} | settings
        for name, plural in (("profile", "profiles"), ("model", "models")):
            if name in settings:
                settings[plural] = (settings.pop(name),)
        if isinstance(loop, type):
            loop = f"{loop.__module__}:{loop.__qualname__}"
        elif loop is None and own["program"] is not None:
            loop = program_spec(own["program"])
        named = {} if loop is None else {"loops": (loop,)}  # else the baseline names it
        check_not_async(item, GATE)
        try:
            with told_of_exit(), chdir(item.config.rootpath):
                names = [item.path.stem, *item.nodeid.split("::")[1:]]  # test_agents.test_mine of test_agents.py::test_mine
                file = re.sub(r"[^A-Za-z0-9_.-]+", "-", ".".join(names)).strip("-.")
                path = Path(own["baseline"] or item.path.parent / "baselines" / f"{file}.json")
                typed = config_from({**settings, **named, "runs": self.runs, "mlflow": False}, item.nodeid)
                judged = self._bless if item.config.getoption("--loop-bless") else self._judge
                return judged(typed, {**settings, **named}, path, own["metrics"] or {}, own["accept"] or ())
        except (ValueError, OSError, SystemExit) as error:
            mistake, place = safe_for_others(f"whichloop_gate: {error}"), raised_in(error)
        self._tell(workflow_command("error", "not judged", mistake, place), error_summary(mistake))
        _fail(mistake)  # out here, where no context prints it twice

    def _judge(
        self, typed: CompareConfig, settings: dict[str, Any], path: Path, metrics: Mapping[str, float], accept: Sequence[str]
    ) -> GateResult:
        if not path.exists():
            test = shlex.quote(self.request.node.nodeid)
            raise ValueError(f"{path}: no such file; python -m pytest --loop-bless {test} writes one")
        baseline = read_baseline(path)
        experiment = prepare_again(baseline, path, self._again(baseline, path, typed, settings))
        _, result = run_and_judge(experiment, Unwatched(), baseline, baseline.gate.changed(metrics, accept), path)
        self._tell(annotation(result), to_summary(result))
        if result.outcome != "pass":
            _fail(literal(str(gate_doc(result))))
        self._say(GATE, safe_for_others(title_of(result)))
        return result

    def _bless(
        self, typed: CompareConfig, settings: dict[str, Any], path: Path, metrics: Mapping[str, float], accept: Sequence[str]
    ) -> GateResult:
        if path.resolve() in self.blessed:
            raise ValueError(f"{path} was written by another call just now; give each call a file of its own: baseline=…")
        config = typed if settings else self._again(read_baseline(path), path, typed, settings)
        experiment = prepare(config, is_compared=False)
        run_apart(experiment, Unwatched())
        run = read_run(experiment.folder)
        baseline, _ = bless_as(path, run, metrics, accept)
        self.blessed.add(path.resolve())
        self._say(GATE, safe_for_others(f"blessed {path}"))
        return judge(run, baseline, path=path)

    def _again(self, baseline: Baseline, path: Path, typed: CompareConfig, settings: dict[str, Any]) -> CompareConfig:
        """Return the baseline's configuration with the test's settings, which allow what they name, as the project does."""
        code = [*own_code(typed), *typed.opened_models, *([] if typed.data is None else [str(typed.data)])]
        allowed = project_permissions(Permissions(code, typed.base_url, typed.cassette))
        return config_again(baseline, path, {"runs": self.runs, **settings}, allowed)

    def _tell(self, command: str, page: str) -> None:
        if command:
            self._say(ANNOTATION, command)
        append_summary(page)

    def _say(self, heading: str, line: str) -> None:
        """Have the summary of the session show a line."""
        self.request.node.user_properties.append((heading, line))


def _fail(message: str) -> NoReturn:
    """Fail the test with a message that may quote the user's own code."""
    pytest.fail(safe_for_others(message), pytrace=False)
