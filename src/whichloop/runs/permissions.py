"""Which code of the user's own may be imported or started: only what the user has named."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from whichloop.datasets.importing.mcp_server import is_mcp
from whichloop.protocol.names import WHY_GONE, is_gone, lives_in_one_process, parse_spec, without_process
from whichloop.runs.built_in import builtin_names, loop_names
from whichloop.runs.config import CompareConfig
from whichloop.runs.registry import loops_named, programs_named
from whichloop.runs.store.files import RunError


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the user has typed again because a run directory, which may come from anywhere, must not decide it."""

    code: Collection[str] = ()
    """Names of code that is not built in and may be imported, commands and interpreters that may be started."""
    base_url: str | None = None
    """The server that may be asked, and sent the key."""
    cassette: Path | None = None
    """The folder of recordings that may be read and written."""
    tracking_uri: str | None = None
    """The MLflow store or server that results may be logged to, with the token of the environment."""


NO_PERMISSIONS = Permissions()
HUB = "huggingface"
"""The suite whose `path` is fetched from a server, or read from a folder."""


_TYPED_AGAIN = {"base_url": "asks the server at", "tracking_uri": "is logged to", "cassette": "uses the recordings in"}
"""Setting → what the run does with what it names."""


def allowed_config(folder: Path, config: CompareConfig, allowed: Permissions) -> CompareConfig:
    """Return a manifest's configuration, with what the user typed again, which may hold what the manifest leaves out as secret.

    Raises RunError for what had to be typed and was not.
    """
    allowed_code(folder, own_code(config), allowed.code)
    for name, does in _TYPED_AGAIN.items():
        if getattr(config, name) is None or (name == "tracking_uri" and not config.is_logged):
            continue
        typed, public = config.model_copy(update={name: getattr(allowed, name)}), config.public()[name]
        if typed.public()[name] != public:
            again = shlex.quote(f"{name}={public}")
            raise RunError(f"{folder}: this run {does} {public}; type it again: -s {again}")
        config = typed
    return config


def allowed_code(folder: Path, names: Sequence[str], allowed: Collection[str]) -> None:
    """Raise RunError for names of the user's own code that were not typed, or that lead to what another process defined."""
    if gone := [name for name in names if is_gone(name)]:
        raise RunError(f"{folder}: this run uses {without_process(gone[0])}, which {WHY_GONE}")
    if missing := [name for name in names if name not in allowed]:
        again = " ".join(f"--allow {shlex.quote(name)}" for name in missing)
        raise RunError(f"{folder}: this run uses {', '.join(missing)}, code of your own; to let it run, type {again}")


def resume_flags(config: CompareConfig) -> list[str]:
    """Return what `allowed_config` wants typed again, as words of a command; addresses without what is secret."""
    public = config.public()
    flags = ("base_url", "cassette", "address", *(("tracking_uri",) if config.is_logged else ()))
    typed_again = [["-s", shlex.quote(f"{name}={public[name]}")] for name in flags if public[name]]
    return [*allow_words(config), *(word for words in typed_again for word in words)]


def allow_words(config: CompareConfig) -> list[str]:
    """Return the words of a command that let code of the user's own run."""
    return [word for name in own_code(config) for word in ("--allow", shlex.quote(name))]


def own_code(config: CompareConfig) -> list[str]:
    """Return what a configuration names outside of whichloop, to be imported, started or fetched, each once."""
    started = [name for text in config.loops for name in programs_named(parse_spec(text))]
    suite = parse_spec(config.suite)
    started += [str(suite.options["path"])] if suite.name == HUB and "path" in suite.options else []
    started += [config.tools] if config.tools is not None and is_mcp(config.tools) else []
    return list(dict.fromkeys([*_imported_code(config), *started]))


def _imported_code(config: CompareConfig) -> list[str]:
    """Return the names in a configuration that lead to code outside of whichloop which is imported, each once."""
    ours = {"loop": loop_names(), "suite": builtin_names("suite")}
    named = [*(("loop", text) for text in config.loops), ("suite", config.suite)]
    names = [(kind, name) for kind, text in named for name in loops_named(parse_spec(text))]
    tools = [] if config.tools is None or is_mcp(config.tools) else [config.tools]
    return list(dict.fromkeys([*(name for kind, name in names if name not in ours[kind]), *tools]))


def with_worker_process(config: CompareConfig) -> CompareConfig:
    """Return the configuration with one worker process if trials would run code of the user's own in this process.

    Code that ends its process, or changes what all code shares, then leaves alone the process that gives the answer. Two kinds of
    run stay here: one with what only this process can find, and one that makes a recording, which one process writes.
    """
    names = _imported_code(config)
    stays = config.is_spread or (config.cassette is not None and not config.replays)
    if stays or not names or not all(_is_found_elsewhere(name) for name in names):
        return config
    return config.model_copy(update={"workers": 1})


def _is_found_elsewhere(name: str) -> bool:
    """Say whether another process in the same folder, with the same search path, can import what a name leads to.

    It cannot find a test module that `pytest --import-mode=importlib` has loaded from its file.
    """
    if lives_in_one_process(name):
        return False
    package = name.partition(":")[0].partition(".")[0]
    if ":" not in name or any(finder.find_spec(package, None) for finder in sys.meta_path):
        return True
    return PathFinder.find_spec(package, [str(Path.cwd())]) is not None
