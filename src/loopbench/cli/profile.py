"""`loopbench profile`: fit a fault profile to a run, and show one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .folders import run_folder

if TYPE_CHECKING:
    from loopbench.experiments.fit_profile.fit import Fitted
    from loopbench.models.profiles import Profile

profile = typer.Typer(help="Fault profiles: fit one to a run, show one.", no_args_is_help=True, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@profile.command()
def fit(
    run: Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)],
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Only this arm, by a unique part of its name; again for each [default: all of one model]."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Only arms of this model.")] = None,
    profile_name: Annotated[str | None, typer.Option("--profile", help="Only arms under this profile.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the profile to this .toml file [default: print the table only].")] = None,
    name: Annotated[str | None, typer.Option(help="Of the profile [default: after the model].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    alpha: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.05,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Estimate how often a run's model stumbled, from its traces: each kind of fault per point reached, with an interval."""
    from loopbench.experiments.fit_profile.fit import fit_run, to_toml

    from . import render

    if out is not None:
        _check_out(out, force=force)
    fitted = fit_run(run_folder(run, runs), arms=arm or (), model=model, profile=profile_name, name=name, alpha=alpha)
    if out is not None:
        with out.open("w" if force else "x", encoding="utf-8") as file:
            file.write(to_toml(fitted))
    if as_json:
        print(json.dumps(fitted.as_dict(), ensure_ascii=True, allow_nan=False))
    else:
        _print_fitted(fitted)
    if out is not None:
        render.say(f"wrote {out}; use it: loopbench compare --profile {out if len(out.parts) > 1 else f'./{out}'}")


@profile.command()
def show(
    name: Annotated[str, typer.Argument(help="Built-in profile, or a .toml file.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Print a profile: kinds of fault, what they mean, how often they strike, and what a fitted one says of each."""
    from loopbench.experiments.fit_profile.fit import remarks
    from loopbench.models.profiles import load_profile

    found = load_profile(name)
    said = remarks(Path(name).read_text(encoding="utf-8")) if name.endswith(".toml") else {}
    if as_json:
        print(json.dumps({**found.model_dump(mode="json"), "digest": found.digest, "remarks": said}, ensure_ascii=True))
    else:
        _print_profile(found, said)


def _check_out(out: Path, *, force: bool) -> None:
    """Before the work is done. Raises ValueError."""
    if out.suffix != ".toml":
        raise ValueError(f"--out {out}: a profile's file ends in .toml")
    if out.exists() and not force:
        raise ValueError(f"--out {out}: exists; overwrite it with --force")


def _print_fitted(fitted: Fitted) -> None:
    from loopbench.models.profiles import FAULT_KINDS

    rows = []
    for kind, found in fitted.rates.items():
        interval = "" if found.interval is None else f"[{found.interval.low:.4f}, {found.interval.high:.4f}]"
        rate = "" if found.interval is None else f"{found.rate:.4f}"
        count = "" if found.interval is None else f"{round(found.count, 2):g} of {found.points:.0f}"
        rows.append((kind, FAULT_KINDS[kind], rate, interval, count, found.note))
    title = f"{fitted.profile.name}: {fitted.profile.description or 'fitted'}; {fitted.trials} trials of {fitted.tasks} tasks"
    level = f"{100 * (1 - fitted.alpha):g} % interval"
    _print_table(title, ("kind", "meaning", "rate per point", level, "struck of points", "note"), rows)
    _print_rest(fitted.profile, fitted.notes)


def _print_profile(found: Profile, said: dict[str, str]) -> None:
    from loopbench.models.profiles import FAULT_KINDS, WEAKNESS_KINDS

    kinds = [kind for kind in FAULT_KINDS if kind in found.rates or kind in said]
    rows = [(kind, FAULT_KINDS[kind], f"{found.rates.get(kind, 0):g}", said.get(kind, "")) for kind in kinds]
    if rows or not found.weaknesses:
        _print_table(f"{found.name}: {found.description}", ("kind", "meaning", "rate per point", "fitted from"), rows)
    weak = [(item.kind, WEAKNESS_KINDS[f"weakness.{item.kind}"], f"{item.rate:g}", item.tool or "any") for item in found.weaknesses]
    if weak:
        _print_table(
            "Weaknesses that a prompt can cover" if rows else f"{found.name}: {found.description}",
            ("kind", "meaning", "rate per trial", "tool"),
            weak,
        )
    _print_rest(found, {})


def _print_rest(found: Profile, notes: Mapping[str, str]) -> None:
    """All that a profile says beside its rates."""
    values = found.model_dump(mode="json", exclude={"name", "description", "rates", "abilities", "weaknesses"})
    clears = values.pop("clears")
    values = {"clears": ", ".join(f"{name} {value:g}" for name, value in clears.items()), **values}
    values |= found.abilities.model_dump(mode="json")
    rows = [(name, _shown(value), notes.get(name, "")) for name, value in values.items()]
    _print_table("", ("field", "value", "note"), rows)
    for name in ("rates", "abilities"):
        if name in notes:
            print(f"{name}: {notes[name]}")


def _shown(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from loopbench.text.table import Table

    from . import render

    render.table(Table(title, columns, tuple(rows)), render.out())
