"""The part of a pilot that a run is planned for: some of its loops, under some of its profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.verdict.parts import part_of
from loopbench.metrics.record_table import where
from loopbench.protocol.names import nearest
from loopbench.runs.config import SettingError
from loopbench.text.numbers import short_name


def part_of_run(run: Results, loops: Sequence[str], profiles: Sequence[str]) -> Results:
    """Return a run with the arms of these loops under these profiles alone; nothing named stands for all of them.

    Raises SettingError for a loop or a profile that the run does not have, and where none of these loops met one of these profiles.
    """
    if not loops and not profiles:
        return run
    infos = [arm.info for arm in run.comparison.arms]
    for what, chosen, present in (
        ("loop", loops, [short_name(info) for info in infos]),
        ("profile", profiles, [info.profile for info in infos]),
    ):
        for name in chosen:
            if name not in present:
                raise SettingError(
                    f"{what}s", f"the run has no {what} {name!r}; {nearest(name, dict.fromkeys(present))}", f"--{what}"
                )
    part = part_of(
        run.comparison,
        lambda info: (not loops or short_name(info) in loops) and (not profiles or info.profile in profiles),
    )
    names = {arm.info.arm for arm in part.arms}
    if not names:
        raise SettingError("profiles", f"none of these loops met {' or '.join(profiles)} in the run", "--profile")
    return replace(run, records=where(run.records, lambda record: record.arm in names), comparison=part)
