"""The TOML profile file of a fit, and the remarks that `whichloop profile` reads from its comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from whichloop.models.profiles import FAULT_KINDS
from whichloop.protocol.values import counted

from .estimates import RateEstimate
from .fit import FittedProfile


def to_toml(fitted: FittedProfile, checked: Sequence[str] = ()) -> str:
    """Return a profile file for `load_profile`, with the origin of each value in a comment.

    `checked`: what came of holding the profile against its run, line by line.
    """
    profile, notes = fitted.profile, fitted.notes
    size = f"{counted(fitted.trials, 'trial')} of {counted(fitted.tasks, 'task')}"
    lines = [
        _comment(f"Fitted by `whichloop profile fit` to {size}: {', '.join(fitted.arms)}"),
        _comment(f"In brackets: {100 * (1 - fitted.alpha):g} % intervals, clustered by task. Rates are per point reached."),
        *(_comment(f"{_CHECKED}{line}") for line in checked),
        _assigned("name", profile.name),
        _assigned("description", profile.description),
        _assigned("forget", profile.forget, notes),
        _assigned("bluff", profile.bluff, notes),
        _assigned("patience", profile.patience, notes),
        _assigned("latency_s", profile.latency_s, notes),
        _assigned("slow_s", profile.slow_s, notes),
        "",
        "[rates]",
    ]
    if "rates" in notes:
        lines.append(_comment(notes["rates"]))
    for kind, estimate in fitted.rates.items():
        rate, remark = profile.rates.get(kind), _remark(estimate)
        lines.append(_comment(f'"{kind}": {remark}') if rate is None else f"{_quoted(kind)} = {rate!r}  {_comment(remark)}")
    lines += ["", "[clears]"] + ([_comment(notes["clears"])] if "clears" in notes else [])
    lines += [_assigned(name, value) for name, value in profile.clears.model_dump().items()]
    lines += ["", "[abilities]"] + ([_comment(notes["abilities"])] if "abilities" in notes else [])
    abilities = profile.abilities.model_dump()
    lines += [_assigned(name, value, notes) for name, value in abilities.items() if value is not None]
    lines += [_comment(f"context_tokens: {notes['context_tokens']}")] if abilities["context_tokens"] is None and notes else []
    return "\n".join(lines) + "\n"


def _remark(rate: RateEstimate) -> str:
    """Return interval, counts and note in words."""
    parts = [rate.note] if rate.note else []
    if rate.interval is not None:
        low, high = rate.interval.low, rate.interval.high
        counts = f"{round(rate.count, 2):g} of {rate.points:.0f} points"
        between = f"[{low:.4f}, {high:.4f}], {counts}" if rate.count else f"0 of {rate.points:.0f} points, at most {high:.4f}"
        parts.insert(0, between)
    return "; ".join(parts) or "no point at which it could strike"


def _assigned(name: str, value: object, notes: Mapping[str, str] | None = None) -> str:
    value_text = str(value).lower() if isinstance(value, bool) else _quoted(value) if isinstance(value, str) else repr(value)
    note = (notes or {}).get(name)
    return f"{name} = {value_text}" + (f"  {_comment(note)}" if note else "")


def _quoted(text: str) -> str:
    """Return a TOML basic string."""
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def _escaped(char: str) -> str:
    return char if char.isprintable() and char != "\x7f" else f"\\U{ord(char):08x}"


def _comment(text: str) -> str:
    """Return a comment on one line, whatever characters a run's names have."""
    return "# " + "".join(char if char.isprintable() else " " for char in text)


_CHECKED = "Checked: "
_REMARK = re.compile(r'^(?:# )?"([a-z_.]+)"(?:: | = [^#]*# )(.*)$', re.MULTILINE)


def remarks(text: str) -> dict[str, str]:
    """Return kind of fault → remark on its rate in a fitted profile's file."""
    return {kind: remark for kind, remark in _REMARK.findall(text) if kind in FAULT_KINDS}


def check_lines(text: str) -> list[str]:
    """Return what a fitted profile's file says of its check against the run, line by line."""
    begin = f"# {_CHECKED}"
    return [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]
