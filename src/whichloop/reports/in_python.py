"""What is said for the command line in Python's words: settings in the place of flags, calls in the place of commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from whichloop.experiments.optimize.config import SearchConfig
from whichloop.runs.config import FLAGS, CompareConfig, ProviderConfig, flag_of


def _settings_by_flag() -> Iterator[tuple[str, str]]:
    for model, prefix in ((ProviderConfig, "provider."), (SearchConfig, ""), (CompareConfig, "")):
        for name in model.model_fields:
            yield flag_of([name]), f"{prefix}{name}"


_SETTINGS: Mapping[str, str] = {
    **dict(_settings_by_flag()),
    "--allow": "allow",
    "--budget-trials": "max_trials",
    "--for": "purpose",
    "--errors-as-failures": "errors_as_failures",
}
"""Flag of the command line → the setting that is the same in Python."""
_SWITCHES = frozenset(flag_of([name]) for name, field in CompareConfig.model_fields.items() if field.annotation is bool) | {
    "--errors-as-failures"
}
_TAKES_WORDS = frozenset(map(flag_of, (["traces"], ["engine"], ["address"], ["base_url"], ["cassette"], ["tracking_uri"])))
"""Flags behind which messages write a value that is not in capitals."""
_FLAG = re.compile(r"(?<![\w-])(--(?:no-)?)([a-z][a-z-]*)(?: ('[^']*'|[^\s,;)]*[^\s,;:).]))?")
_PLACEHOLDER = re.compile(r"[A-Z]+|\d+")
_HYPHENED = re.compile(r"[a-z]+(-[a-z0-9]+)+")
"""Names such as those of profiles, which no word of a sentence is like."""


def in_python(message: str) -> str:
    """Return a message on one line, with settings as a call passes them (`data=FILE`) in the place of flags."""
    return _FLAG.sub(_as_setting, map_in_python(" ".join(message.split()) if "\n" in message else message))


_MAP = re.compile(r"--map (?:'(\w+=[^',]*(?:,\w+=[^',]*)*)'|(\w+=[^\s,;:…]*(?:,\w+=[^\s,;:…]*)*)…?)")
"""Columns, in quotes where a shell needs them."""


def map_in_python(message: str) -> str:
    """Return a message with `map={'task': 'COLUMN'}` in the place of `--map task=COLUMN`."""
    return _MAP.sub(lambda match: f"map={dict(part.split('=', 1) for part in (match[1] or match[2]).split(','))}", message)


def _as_setting(match: re.Match[str]) -> str:
    dashes, name, value = match.groups()
    flag = f"--{name}"
    rest = "" if value is None else f" {value}"
    if flag not in _SETTINGS:
        return match.group()
    setting = _SETTINGS[flag]
    if flag in _SWITCHES:
        return f"{setting}={dashes == '--'}{rest}"
    if flag == "--allow" and value is not None:
        return f"{setting}=[{value.strip(chr(39))!r}]"
    if value is not None and _PLACEHOLDER.fullmatch(value):
        return f"{setting}={[value] if setting in FLAGS else value}"
    if value is not None and setting == "profiles" and _HYPHENED.fullmatch(value):
        return f"{setting}={[value]}"
    is_amount = value is not None and setting == "budget" and value[0].isdigit()
    if value is not None and (flag in _TAKES_WORDS or is_amount or (setting not in FLAGS and value.startswith("'"))):
        return f"{setting}={value.strip(chr(39))!r}"
    return f"{setting}{rest}"


def said_in_python(lines: Sequence[str]) -> list[str]:
    """Return lines of an answer in Python's words; a line that is a command becomes the call that does the same, if any does."""
    return [_call(line) or in_python(line) for line in lines]


def _call(line: str) -> str | None:
    """Return a command of one line as a call; None for what is none, or has no call."""
    indent, text = line[: len(line) - len(line.lstrip())], line.strip()
    if not text.startswith("whichloop "):
        return None
    try:
        _, command, *words = shlex.split(text)
    except ValueError:  # a sentence with an apostrophe
        return None
    if command == "show" and len(words) == 2:
        return f"{indent}whichloop.load({words[0]!r}).show({words[1]!r})"
    if command == "bless" and len(words) == 3 and words[1] in ("--output", "-o"):
        return f"{indent}whichloop.bless({words[0]!r}, {words[2]!r})"
    if command == "gate" and len(words) == 2 and words[0] == "--baseline":
        return f"{indent}whichloop.gate({words[1]!r})"
    arguments = _settings(words) if command == "compare" else None
    return None if arguments is None else f"{indent}whichloop.compare({arguments})"


def _settings(words: Sequence[str]) -> str | None:
    """Return the flags of `compare` as keyword arguments; None if one of them is no setting."""
    settings: dict[str, str | int | bool | list[str]] = {}
    rest = list(words)
    while rest:
        flag = rest.pop(0)
        bare = flag.replace("--no-", "--", 1)
        setting = _SETTINGS.get(bare)
        if setting is None or (bare not in _SWITCHES and not rest):
            return None
        if bare in _SWITCHES:
            settings[setting] = flag == bare
            continue
        value = rest.pop(0)
        listed = settings.setdefault(setting, []) if setting in FLAGS else None
        if isinstance(listed, list):
            listed.append(value)
        else:
            settings[setting] = int(value) if value.isdecimal() else value
    return ", ".join(f"{setting}={value!r}" for setting, value in settings.items())
