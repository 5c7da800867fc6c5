"""What was done to a run after it began, as its manifest keeps it, and what a reader of its results has to know of it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from loopbench.datasets.task import Suite, Task
from loopbench.metrics.record import RECORD_VERSION
from loopbench.metrics.sequential import Looks
from loopbench.models.profiles import PROFILES_VERSION
from loopbench.protocol import Loop, Optimizable, program_digest, render_value
from loopbench.protocol.names import parse_spec
from loopbench.runs.changes import questions_of
from loopbench.runs.code_digests import code_digest, own_code_digest
from loopbench.runs.config import CompareConfig
from loopbench.runs.lookup import scorers_of
from loopbench.runs.schedule import Arm
from loopbench.text.plain_text import json_safe

RETRIED = "retried"
"""Trials that were scored and run again on request: [{"when", "what", "trials"}]."""
RESCORED = "rescored"
"""Answers that were judged again: [{"when", "suite": its digest before, "trials": whose scores changed}]."""
EXTENDED = "extended"
"""Arms, tasks or repeats that were added: [{"when", "trials": the schedule before, "to": the schedule since}]."""


def noted(manifest: Mapping[str, Any], name: str, **note: Any) -> list[Any]:
    """What a manifest keeps under a name, and one note more, with the time it was made at."""
    known = manifest.get(name)
    return [*(known if isinstance(known, list) else []), {"when": datetime.now(UTC).isoformat(timespec="seconds"), **note}]


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What makes a run's results say more than they should. Raises KeyError or TypeError for a damaged manifest."""
    again = sum(int(note["trials"]) for note in manifest.get(RETRIED, []))
    if again:
        yield f"{again} trials that had crashed or timed out were run again on request: what they show is favourable"


def remarks_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What else a reader has to know. Raises KeyError or TypeError for a damaged manifest."""
    for note in manifest.get(RESCORED, []):
        yield f"Judged again on {note['when']}: the scores of {note['trials']} trials changed."


PACKAGES = ("loopbench", "dspy", "mlflow", "pydantic", "scipy", "statsmodels")


def asked_of(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, str]:
    """What `ASKED` holds. Of the user's own code only `--tools` is a part: what a suite's module holds may be expected answers."""
    made = questions_of(suite, tasks, config.max_tool_steps or suite.max_tool_steps)
    return made if config.tools is None else made | {"tools": own_code_digest(None, config.tools)}


def manifest_of(config: CompareConfig, suite: Suite, tasks: Sequence[Task], arms: Sequence[Arm]) -> dict[str, Any]:
    """What decides what trials give, and where they ran."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.public(),
        "seed": config.seed,
        "versions": {"record": RECORD_VERSION, "policy_and_profiles": PROFILES_VERSION},
        "suite": suite_manifest(config, suite, tasks),
        "profiles": {arm.profile.name: arm.profile.digest for arm in arms},
        "arms": [
            {
                "arm": arm.name,
                "loop": arm.spec.name,
                "options": {name: json_safe(value) for name, value in arm.spec.options.items()},
                "model": arm.model,
                "profile": arm.profile.name,
                "configuration": configuration(arm.loop),
                "code": code_digest(arm.loop),
                **({} if arm.spec.program is None else {"program": loop_program_digest(arm.loop)}),
            }
            for arm in arms
        ],
        "packages": {name: package_version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }


def suite_manifest(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, Any]:
    """What a manifest says of the suite."""
    code = suite_code(config, suite)
    return {
        "name": suite.name,
        "version": suite.version,
        "digest": suite.digest,
        "tasks": len(tasks),
        "max_tool_steps": config.max_tool_steps or suite.max_tool_steps,
        **({"code": code} if code else {}),
    }


def suite_code(config: CompareConfig, suite: Suite) -> str:
    """Digest of the code of the user's own that tasks are made of, solved with and scored by; empty where there is none."""
    own = [name for scorer in sorted(scorers_of(suite)) if ":" in (name := scorer.partition("(")[0].strip())]
    return own_code_digest(parse_spec(config.suite).name, config.tools, own)


def loop_program_digest(loop: Loop) -> str | None:
    """Of the prompts of a loop; None where they cannot be changed."""
    return program_digest(loop.predictors) if isinstance(loop, Optimizable) else None


def configuration(loop: object) -> str:
    """All that a loop is set to, its program aside, the same in every process: sets sorted, no memory addresses."""
    if not dataclasses.is_dataclass(loop):
        return render_value(loop)
    fields = [f"{item.name}={_literal(getattr(loop, item.name))}" for item in dataclasses.fields(loop) if item.name != "program"]
    return f"{type(loop).__name__}({', '.join(fields)})"


def _literal(value: Any) -> str:
    return repr(value if value is None or isinstance(value, str | int | float) else render_value(value))


def package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


ABLATION = "ablation"
"""Of the manifest: which arm is which cell of an ablation, see `ablation.py`."""


def looks_of(manifest: Mapping[str, Any]) -> Looks | None:
    """When a run is looked at on its way; None where it is not. Raises KeyError, TypeError or ValueError for a damaged plan."""
    return None if manifest.get("looks") is None else Looks.from_json(manifest["looks"])


ASKED = "asked"
"""Of the manifest: digests of all that decides what a trial is asked, and of the plans that a scripted model follows."""
