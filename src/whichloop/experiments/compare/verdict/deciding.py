"""The command of a fresh run that is likely to tell two loops apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.runs.config import CompareConfig, flag_of
from whichloop.runs.manifest import ArmEntry, Manifest
from whichloop.runs.registry import with_size

from .sentence import DecidingRun

KEPT = (
    *("data", "tools", "quarantine", "skip_unplanned", "repeats", "max_tool_steps", "price", "trial_budget", "trial_timeout_s"),
    *("tool_timeout_s", "alpha", "margin", "real_time"),
)
"""Settings of the run that the new one keeps."""
UNTOLD = ("user", "base_url", "provider", "cassette", "split")
"""Settings with which no command is told: it would have to repeat an address, a recording, or the size of another split."""


def deciding_command(manifest: Manifest, decides: DecidingRun) -> Sequence[str]:
    """Return the words of the command; none where the run's suite cannot have so many tasks, or a command would not say it all."""
    entries = [manifest.arm(arm) for arm in decides.arms]
    if manifest.imported is not None or not can_be_told(manifest.config):
        return ()
    loops = [None if entry is None else _typed(entry, manifest.settings.loops) for entry in entries]
    tasks = list(_tasks(manifest, decides.tasks))
    first = entries[0]
    if first is None or None in loops or not tasks:
        return ()
    words = ["whichloop", "compare"]
    for loop in loops:
        words += ["--loop", str(loop)]
    words += ["--profile", first.profile] if first.model == SCRIPTED else ["--model", first.model]
    words += [*tasks, "--seed", str(manifest.seed + 1)]  # other faults: what was seen would else decide again
    return [*words, *kept_words(manifest.config)]


def can_be_told(config: Mapping[str, Any]) -> bool:
    """Whether a command says all that a run's configuration does. What is None may be left out of it, as a baseline does."""
    defaults = CompareConfig().model_dump(mode="json")
    return all(_without_none(config.get(name, defaults[name])) == _without_none(defaults[name]) for name in UNTOLD)


def _without_none(value: Any) -> Any:
    """Return a setting without the parts that are None."""
    return {name: part for name, part in value.items() if part is not None} if isinstance(value, dict) else value


def kept_words(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags of those settings of a run that a new one keeps, where they are not the defaults."""
    defaults = CompareConfig().model_dump(mode="json")
    for name in KEPT:
        value = config.get(name, defaults[name])
        if isinstance(value, dict):
            yield from (word for part, limit in _without_none(value).items() for word in (flag_of([name, part]), str(limit)))
        elif value != defaults[name]:
            yield from [flag_of([name])] if value is True else [flag_of([name]), str(value)]


def _typed(entry: ArmEntry, loops: Sequence[str]) -> str | None:
    """Return an arm's loop as it was typed."""
    for text in loops:
        spec = parse_spec(text)
        if (spec.name, dict(spec.options)) == (entry.loop, entry.options):
            return text
    return None


def _tasks(manifest: Manifest, number: int) -> Iterator[str]:
    """Yield the words that ask for so many tasks: of a suite that makes as many as one likes, or of one that was not run whole."""
    suite = manifest.settings.suite
    if larger := with_size(suite, number):
        yield from ("--suite", larger)
    elif manifest.settings.tasks is not None:
        yield from ("--suite", suite, "--tasks", str(number))
