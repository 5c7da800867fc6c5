"""`whichloop list`: what can be named, and with which options."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .flags import Json, Verbose

KINDS = ("loops", "frameworks", "suites", "profiles", "metrics", "models", "optimizers", "settings", "plan-schema")


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="What to list, see above.",
            autocompletion=lambda incomplete: [kind for kind in KINDS if kind.startswith(incomplete)],
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The one to show with its options.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """List what can be named, or show one with its options.

    KIND: loops, frameworks, suites, profiles, metrics, models, optimizers, settings or plan-schema. A loop of your own is shown as
    `list loops my_module:MyLoop`, a profile as `list profiles mine.toml`.
    """
    from whichloop.protocol.names import nearest
    from whichloop.text.doc import UNKNOWN, Block, Doc, Table, lines_of

    from . import listed
    from .console import show
    from .process import own_prints_aside

    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(KINDS)}", param_hint="KIND")
    if kind == "plan-schema":
        from whichloop.datasets.importing.plan_model import plan_schema

        print(json.dumps(plan_schema(), indent=2))
        return
    if kind == "profiles" and name is not None:
        from whichloop.experiments.fit_profile.doc import profile_doc
        from whichloop.models.profiles import load_profile

        show(profile_doc(load_profile(name)), as_json=as_json, verbose=True)
        return
    in_full = verbose or as_json or name is not None
    with own_prints_aside():
        entries = [each for each in listed.KINDS[kind](in_full, name) if name in (None, each.name)]
    if name is not None and not entries:
        known = [each.name for each in listed.KINDS[kind](False, None)]
        raise ValueError(f"there is no {name!r} among the {kind}; {nearest(name, known)}")
    if as_json:
        data = [{"name": each.name, "summary": each.summary, "options": each.options, **each.facts} for each in entries]
        print(json.dumps(data, ensure_ascii=True, allow_nan=False))
        return
    blocks: list[Block] = []
    for group in dict.fromkeys(each.group for each in entries):
        those = [each for each in entries if each.group == group]
        facts = tuple(dict.fromkeys(fact for each in those for fact in each.facts))
        rows = [(each.name, *(shown(each.facts.get(fact, UNKNOWN)) for fact in facts), each.summary) for each in those]
        blocks.append(Table(group, ("name", *facts, "about"), tuple(rows)))
    for each in entries if in_full else ():
        options = [(one["name"], one["default"], f"{'|'.join(one['values'])} {one['doc']}".strip()) for one in each.options]
        blocks += [Table(f"Options of {each.name}", ("option", "default", "about"), tuple(options))] if options else []
    if kind == "frameworks":
        from whichloop.frameworks.table import environments

        blocks.append(lines_of(("Below", str(environments()))))
    show(Doc("", tuple(blocks)))


def shown(fact: Any) -> str:
    """Return a fact as it stands in a cell."""
    if isinstance(fact, dict):
        return ", ".join(f"{count} {name}" for name, count in fact.items())
    return f"{fact:g}" if isinstance(fact, float) else "–" if fact is None else str(fact)
