"""`whichloop profile fit` and `profile show`: fit a fault profile to a run, and print one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.fit_profile.check import FitCheck, check_fit
from whichloop.experiments.fit_profile.doc import fit_doc, profile_doc
from whichloop.experiments.fit_profile.fit import check_lines, fit_run, remarks, to_toml
from whichloop.models.profiles import load_profile
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import trials_folder

from .console import check_writable, say
from .console import show as show_doc
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, Texts, VerboseOption, with_options
from .process import own_prints_aside


class FitOptions(OptionGroup):
    arm: Annotated[Texts, IfAbsent("all arms of one model")]
    """Arm to use, by a unique part of its name; repeat the option for more arms."""
    model: str | None = None
    """Model whose arms are used."""
    profile: str | None = None
    """Profile whose arms are used."""
    out: Annotated[Path | None, IfAbsent("print the table only")] = None
    """File to write the profile to; its name ends in .toml."""
    name: Annotated[str | None, IfAbsent("derived from the model")] = None
    """Name of the profile."""
    check: bool = True
    """Run the loops again under the profile, at most 400 trials each, and say how far calls, accuracy and errors are off."""
    force: bool = False
    """Overwrite the file."""
    alpha: float = 0.05
    """Significance level; intervals have a confidence of 1 - alpha."""


class FitOutput(JsonOption, VerboseOption):
    """How a fit is printed."""


class ProfileChoice(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Built-in profile, or a .toml file."""


@with_options()
def fit(choice: ReadRunChoice, options: FitOptions, code: AllowOption, output: FitOutput) -> None:
    """Estimate from a run's traces how often its model failed.

    Each kind of fault gets a rate per opportunity, with an interval.
    """
    file = options.out
    if file is not None:
        _check_out(file, force=options.force)
    folder = trials_folder(choice.folder)
    given = options.model_dump(include={"model", "profile", "name", "alpha"})
    fitted = fit_run(folder, arms=options.arm, **given)
    check: FitCheck | None = None
    if options.check:
        with own_prints_aside():
            check = check_fit(folder, fitted, code.allow)
    if file is not None:
        with file.open("w" if options.force else "x", encoding="utf-8") as stream:
            stream.write(to_toml(fitted, () if check is None else check.lines))
    show_doc(fit_doc(fitted, check), as_json=output.as_json, verbose=output.verbose)
    if file is not None:
        say(f"wrote {file}; use it: whichloop compare --profile {file if len(file.parts) > 1 else f'./{file}'}")


@with_options()
def show(choice: ProfileChoice, output: JsonOption) -> None:
    """Print a profile: its kinds of fault, what they mean, and how often they occur."""
    profile = load_profile(choice.name)
    text = Path(choice.name).read_text(encoding="utf-8") if choice.name.endswith(".toml") else ""
    show_doc(profile_doc(profile, remarks(text), check_lines(text)), as_json=output.as_json, verbose=True)


def _check_out(out: Path, *, force: bool) -> None:
    """Check before the work is done whether the file can be written. Raises ValueError."""
    if out.suffix != ".toml":
        raise ValueError(f"--out {out}: a profile's file ends in .toml")
    if out.exists() and not force:
        raise ValueError(f"--out {out}: exists; overwrite it with --force")
    check_writable("--out", out, "nothing was fitted")
