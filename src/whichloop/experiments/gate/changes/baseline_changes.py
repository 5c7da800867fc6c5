"""What a baseline holds, and what a new one changes in the one that it replaces, in lines for whoever blesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whichloop.experiments.gate.data.baseline import Baseline, BaselineArm, BaselineSuite, read_baseline
from whichloop.experiments.gate.data.damaged import DamagedBaseline
from whichloop.experiments.gate.data.findings import TaskSets
from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.text.numbers import reasons


def contents(baseline: Baseline) -> list[str]:
    """Return what a baseline holds: suite, tasks, repeats and seed, and a line for each arm, whose name has loop and profile."""
    suite = baseline.suite
    seed = f", seed {baseline.seed}" if "loops" in baseline.config else ""  # other tools' results tell none
    return [
        f"{suite.name} {suite.version}: {counted(suite.tasks, 'task')} × {baseline.repeats}{seed}",
        *(f"arm {name}: accuracy {_mean_accuracy(arm):.3f}" for name, arm in baseline.arms.items()),
    ]


def blessed_crashes(records: Sequence[Record], *, imported: bool = False) -> list[str]:
    """Return how many of the blessed trials crash, and by what: later runs may crash there, too; nothing where none does.

    `imported`: whether another tool recorded them, as ended by an error.
    """
    crashes = Counter(record.reason for record in records if record.stop == StopReason.CRASHED)
    if not crashes:
        return []
    if imported:
        crashed = counted(crashes.total(), f"of {len(records):,} trials was", f"of {len(records):,} trials were")
        return [
            f"{crashed} ended by an error, as the file says ({reasons(crashes)}), and the gate takes that for what the agent does"
        ]
    crash = counted(crashes.total(), f"of {len(records):,} trials crashes", f"of {len(records):,} trials crash")
    return [f"{crash} ({reasons(crashes)}), and the gate takes that for what the loop does"]


def replaced(path: Path, new: Baseline) -> list[str]:
    """Return what a new baseline changes in the file that it is to replace, a line each; nothing where there is no file.

    A damaged baseline may be replaced, since to bless again is its cure. Raises ValueError for a file that never was one.
    """
    if not path.exists():
        return []
    try:
        return changes(read_baseline(path), new) or ["nothing changed"]
    except DamagedBaseline as error:
        return [f"it replaces a baseline that could not be read: {error.reason}"]
    except ValueError as error:
        raise ValueError(f"{error}; it stays as it is: write the baseline to another file") from None


def changes(old: Baseline, new: Baseline) -> list[str]:
    """Return the differences between an old and a new baseline, one line each."""
    lines = [
        f"{name}: {_brief(getattr(old, name))} -> {_brief(getattr(new, name))}"
        for name in ("suite", "profiles", "versions", "seed", "repeats", "metrics")
        if getattr(old, name) != getattr(new, name)
    ]
    if old.task_digests and new.task_digests and (named := TaskSets.of(old.task_digests, new.task_digests).named()):
        lines.append(f"tasks: {named}")
    lines += [f"arm {name}: gone" for name in old.arms if name not in new.arms]
    for name, arm in new.arms.items():
        lines += [f"arm {name}: new"] if name not in old.arms else _arm_changes(name, old.arms[name], arm)
    return lines


def _brief(value: Any) -> str:
    if isinstance(value, BaselineSuite):
        return f"{value.name} {value.version}, {counted(value.tasks, 'task')} ({value.digest[:8]})"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {str(item)[:8]}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _arm_changes(name: str, old: BaselineArm, new: BaselineArm) -> list[str]:
    changed = sum(new.tasks.get(task, line) != line for task, line in old.tasks.items())
    counts = {"changed": changed, "new": len(new.tasks.keys() - old.tasks.keys()), "gone": len(old.tasks.keys() - new.tasks.keys())}
    summary = ", ".join(f"{count} {change}" for change, count in counts.items() if count)
    accuracy = f"accuracy {_mean_accuracy(old):.3f} -> {_mean_accuracy(new):.3f}"
    return [f"arm {name}: of {counted(len(old.tasks), 'task')} {summary}; {accuracy}"] if summary else []


def _mean_accuracy(arm: BaselineArm) -> float:
    means = [sum(values) / len(values) for line in arm.tasks.values() if (values := [v for v in line.accuracy if v is not None])]
    return sum(means) / max(len(means), 1)
