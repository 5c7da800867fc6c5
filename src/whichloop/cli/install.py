"""`whichloop install`: the environments of agent frameworks."""

from __future__ import annotations

from typing import Annotated

import typer

from .flags import Quiet


def install(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME[@VERSION]", help="Frameworks: `list frameworks`.")] = None,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Install every framework.")] = False,
    again: Annotated[bool, typer.Option("--again", metavar="", help="Make environments anew that are there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make environments of agent frameworks, in tested versions or others.

    Each has its own folder below WHICHLOOP_HOME, by default ~/.local/share/whichloop. uv makes it where it is found, else pip.
    """
    import time
    from functools import partial

    from whichloop.frameworks import installing
    from whichloop.frameworks.table import FRAMEWORKS
    from whichloop.text.output import terminal_safe

    from .console import say

    def told(label: str, line: str) -> None:
        if not quiet:
            say(f"{label}: {line}")

    if bool(names) == everything:
        raise ValueError("name frameworks, or give --all; whichloop list frameworks shows them")
    releases = [installing.read_release(name) for name in dict.fromkeys(names or FRAMEWORKS)]  # all, or none is made
    for release in releases:
        label = release.label
        if release.folder.exists() and not again:
            print(terminal_safe(f"{label}: already in {release.folder}; --again makes it anew"))
            continue
        if not quiet:
            say(f"{release.name} {release.version}: installing into {release.folder}")
        start = time.monotonic()
        installing.install(release, partial(told, label))
        arm = label if release.is_pinned else f"{release.name}(venv={label})"
        took = f"in {time.monotonic() - start:.0f} s"
        print(terminal_safe(f"{release.name} {release.version}: installed {took}, in {release.folder}; --loop '{arm}'"))
