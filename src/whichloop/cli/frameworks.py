"""`whichloop frameworks`: the environments of agent frameworks."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.text import Text

from whichloop.frameworks.installing import InstallError, Release, framework_class, install, pinned_version, read_release
from whichloop.frameworks.table import environments, known_frameworks
from whichloop.runs.built_in import builtin_names
from whichloop.text.output import terminal_safe

from .catalogue import CatalogueFramework, built_in
from .console import out, say
from .list_ import print_framework
from .options import JsonOption, OptionGroup, with_options


class InstallOptions(OptionGroup):
    names: Annotated[list[str] | None, typer.Argument()] = None
    """Frameworks, as `whichloop frameworks list` names them; NAME@VERSION for another version than the tested one."""
    all_of_them: Annotated[bool, typer.Option("--all")] = False
    """Install every framework."""
    again: bool = False
    """Make environments anew that are there."""
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    """Show no progress."""


@with_options()
def install_(options: InstallOptions) -> None:
    """Make environments of frameworks, with the versions that were tested, or with others.

    Each has its own folder below WHICHLOOP_HOME, by default ~/.local/share/whichloop. uv makes it where it is found, else pip.
    """
    names = known_frameworks() if options.all_of_them else list(dict.fromkeys(options.names or ()))
    if not names:
        raise InstallError("name a framework, or give --all; whichloop frameworks list shows them")
    if options.all_of_them and options.names:
        raise InstallError("name frameworks or give --all, not both")
    releases = [read_release(name) for name in names]  # a wrong name is told before anything is made
    for release in releases:
        _install(release, again=options.again, quiet=options.quiet)


def _install(release: Release, *, again: bool, quiet: bool) -> None:
    label, folder = release.label, release.folder
    arm = label if release.is_pinned else f"{release.name}(venv={label})"
    if folder.exists() and not again:
        print(terminal_safe(f"{label}: already in {folder}; --again makes it anew"))
        return
    if not quiet:
        say(f"{release.name} {release.version}: installing into {folder}")
    start = time.monotonic()
    installed = install(release, (lambda line: None) if quiet else (lambda line: say(f"{label}: {line}")), again=again)
    print(
        terminal_safe(
            f"{release.name} {release.version}: installed in {time.monotonic() - start:.0f} s, in {installed}; --loop '{arm}'"
        )
    )


@with_options()
def list_frameworks(output: JsonOption) -> None:
    """List the frameworks: the version that `install` gives, the one that is installed, and their options."""
    frameworks = framework_entries()
    if output.as_json:
        print(json.dumps([entry.as_dict() for entry in frameworks], ensure_ascii=True))
        return
    for entry in frameworks:
        print_framework(entry)
    out().print(Text(f"environments: {terminal_safe(str(environments()))}"), soft_wrap=True)


def framework_entries() -> list[CatalogueFramework]:
    """Return the agent frameworks, with their options and versions."""
    return [_entry(name) for name in builtin_names("framework")]


def _entry(name: str) -> CatalogueFramework:
    plain = built_in("framework", name)
    try:
        installed = framework_class(name)().version
    except ValueError:
        installed = None
    return CatalogueFramework(name, plain.summary, plain.options, pinned_version(name), installed)
