"""`whichloop profile fit` and `profile show`: fit a fault profile to a run, and print one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.fit_profile.check import FitCheck, check_fit
from whichloop.experiments.fit_profile.fit import check_lines, fit_run, remarks, to_toml
from whichloop.models.profiles import FAULT_KINDS, FORMS, WEAKNESS_KINDS, Profile, load_profile
from whichloop.protocol.values import counted
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import trials_folder
from whichloop.text.doc import Table

from .console import check_writable, say, show_table
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, Texts, with_options
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


class ProfileChoice(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Built-in profile, or a .toml file."""


@with_options()
def fit(choice: ReadRunChoice, options: FitOptions, code: AllowOption, output: JsonOption) -> None:
    """Estimate from a run's traces how often its model failed.

    Each kind of fault gets a rate per opportunity, with an interval.
    """
    file = options.out
    if file is not None:
        _check_out(file, force=options.force)
    folder = trials_folder(choice.folder)
    fitted = fit_run(
        folder,
        arms=options.arm,
        model=options.model,
        profile=options.profile,
        name=options.name,
        alpha=options.alpha,
    )
    check: FitCheck | None = None
    if options.check:
        with own_prints_aside():
            check = check_fit(folder, fitted, code.allow)
    if file is not None:
        with file.open("w" if options.force else "x", encoding="utf-8") as stream:
            stream.write(to_toml(fitted, () if check is None else check.lines()))
    if output.as_json:
        print(json.dumps({**fitted.as_dict(), "check": check and check.as_dict()}, ensure_ascii=True, allow_nan=False))
    else:
        rows = []
        for kind, fitted_rate in fitted.rates.items():
            interval = "" if fitted_rate.interval is None else f"[{fitted_rate.interval.low:.4f}, {fitted_rate.interval.high:.4f}]"
            rate = "" if fitted_rate.interval is None else f"{fitted_rate.rate:.4f}"
            count = "" if fitted_rate.interval is None else f"{round(fitted_rate.count, 2):g} of {fitted_rate.points:.0f}"
            rows.append((kind, FAULT_KINDS[kind], rate, interval, count, fitted_rate.note))
        size = f"{counted(fitted.trials, 'trial')} of {counted(fitted.tasks, 'task')}"
        title = f"{fitted.profile.name}: {fitted.profile.description or 'fitted'}; {size}"
        level = f"{100 * (1 - fitted.alpha):g} % interval"
        _print_rows(title, ("kind", "meaning", "rate per point", level, "struck of points", "note"), rows)
        _print_rest(fitted.profile, fitted.notes)
        _print_check(check)
    if check is not None and check.warning:
        say(check.warning)
    if file is not None:
        say(f"wrote {file}; use it: whichloop compare --profile {file if len(file.parts) > 1 else f'./{file}'}")


@with_options()
def show(choice: ProfileChoice, output: JsonOption) -> None:
    """Print a profile: its kinds of fault, what they mean, and how often they occur."""
    profile = load_profile(choice.name)
    text = Path(choice.name).read_text(encoding="utf-8") if choice.name.endswith(".toml") else ""
    profile_remarks, checked = profile.sources | remarks(text), check_lines(text)
    if output.as_json:
        about = {"digest": profile.digest, "remarks": profile_remarks, "checked": checked}
        print(json.dumps({**profile.model_dump(mode="json"), **about}, ensure_ascii=True))
    elif profile.by_form:
        print(f"{profile.name}: {profile.description}\n{profile.evidence}".rstrip())
        for form, form_profile in profile.by_form.items():
            print(f"\nLoops with {FORMS[form]} meet:")
            _print_profile(form_profile, form_profile.sources)
    else:
        _print_profile(profile, profile_remarks)
        for line in checked:
            print(f"checked: {line}")


def _check_out(out: Path, *, force: bool) -> None:
    """Check before the work is done whether the file can be written. Raises ValueError."""
    if out.suffix != ".toml":
        raise ValueError(f"--out {out}: a profile's file ends in .toml")
    if out.exists() and not force:
        raise ValueError(f"--out {out}: exists; overwrite it with --force")
    check_writable("--out", out, "nothing was fitted")


def _print_check(check: FitCheck | None) -> None:
    if check is None or check.problem:
        return
    rows = [
        (gap.loop, gap.measure, f"{gap.run:.2f}", f"{gap.again:.2f}", gap.between, "OFF" if gap.is_off else "")
        for gap in check.gaps
    ]
    title = f"The run against the same loops under this profile, on {check.size}"
    _print_rows(title, ("loop", "per trial", "run", "profile", "difference", ""), rows)


def _print_profile(profile: Profile, remarks: Mapping[str, str]) -> None:
    kinds = [kind for kind in FAULT_KINDS if kind in profile.rates or kind in remarks]
    rows = [(kind, FAULT_KINDS[kind], f"{profile.rates.get(kind, 0):g}", remarks.get(kind, "")) for kind in kinds]
    if rows or not profile.weaknesses:
        _print_rows(f"{profile.name}: {profile.description}", ("kind", "meaning", "rate per point", "source"), rows)
    weak = [
        (item.kind, WEAKNESS_KINDS[f"weakness.{item.kind}"], f"{item.rate:g}", item.tool or "any") for item in profile.weaknesses
    ]
    if weak:
        _print_rows(
            "Weaknesses that a prompt can cover" if rows else f"{profile.name}: {profile.description}",
            ("kind", "meaning", "rate per trial", "tool"),
            weak,
        )
    _print_rest(profile, {})
    if profile.evidence:
        print(profile.evidence)


def _print_rest(profile: Profile, notes: Mapping[str, str]) -> None:
    """Print everything that a profile says beside its rates."""
    values = profile.model_dump(
        mode="json", exclude={"name", "description", "evidence", "sources", "rates", "abilities", "weaknesses"}
    )
    clears = values.pop("clears")
    values = {"clears": ", ".join(f"{name} {value:g}" for name, value in clears.items()), **values}
    values |= profile.abilities.model_dump(mode="json")
    rows = [(name, _toml_value(value), notes.get(name, "")) for name, value in values.items()]
    _print_rows("", ("field", "value", "note"), rows)
    for name in ("rates", "abilities"):
        if name in notes:
            print(f"{name}: {notes[name]}")


def _toml_value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _print_rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    show_table(Table(title, columns, tuple(rows)))
