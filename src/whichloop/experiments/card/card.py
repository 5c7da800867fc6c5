"""What a card discloses of an agent: its requests, its options, what each fault does to it, and the figures of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from whichloop.checks.program import OUTCOMES, RECOVERED, ProgramReport, check_program
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.bench import tool_descriptions
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.compare.arm_loop import arm_loop
from whichloop.experiments.compare.results import Results
from whichloop.experiments.size.pilot import part_of
from whichloop.experiments.why.losses import required_arms
from whichloop.metrics.summary import METRICS, measures_of
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Loop, Request, render_value
from whichloop.protocol.names import Spec
from whichloop.runs.built_in import options_of
from whichloop.runs.code_digests import code_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import ArmEntry
from whichloop.runs.permissions import allowed_code, own_code
from whichloop.runs.registry import find
from whichloop.runs.store.files import RunError
from whichloop.text.doc import UNKNOWN, Doc, Table, lines_of
from whichloop.text.numbers import counts, interval, measure_text

NATIVELY, IN_TEXT, NOT_SHOWN = "offered natively", "described in the text", "not shown"
FIGURES = (
    "accuracy", "steps", "lm_calls", "tokens", "retention", "prefix_stability", "tokens_with_cache",
    *measures_of("calls"), *measures_of("injection"), "cost_usd",
)  # fmt: skip
"""Measures that a card shows of each arm."""
MAIN_FIGURES = 5
"""Rows that a terminal shows without -v."""
ORIGIN = ("suite", "profiles", "seed", "versions", "packages", "python", "created")
"""Parts of the manifest that a card's data have."""
DIGEST_CHARS = 12


def wire_uses(requests: Sequence[Request], tools: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what an agent's requests are like, role by role, in the order in which roles come up.

    `tools`: name → description. Of each role: the `format` of its replies, `calls_per_reply` at most, how `tools` are shown, what
    `tool_choice` demands, whether a `response_schema` is sent, and the `messages` of the first and of the last request.
    """
    uses = []
    for role in dict.fromkeys(request.role for request in requests):
        own = [request for request in requests if request.role is role]
        formats = [request.codec or NATIVE for request in own]
        calls = [codec.max_calls if each.parallel_calls else 1 for codec, each in zip(formats, own, strict=True)]
        uses.append(
            {
                "role": role.value,
                "requests": len(own),
                "format": " or ".join(dict.fromkeys(codec.name for codec in formats)),
                "calls_per_reply": min(calls),
                "tools": " or ".join(dict.fromkeys(_way_of_showing(request, tools) for request in own)),
                "tool_choice": " or ".join(dict.fromkeys(request.tool_choice for request in own if request.tool_choice)),
                "response_schema": any(request.response_schema is not None for request in own),
                "messages": (len(own[0].messages), len(own[-1].messages)),
            }
        )
    return uses


def _way_of_showing(request: Request, tools: Mapping[str, str]) -> str:
    """Say how tools are shown. A name alone does not count: a question or a result may have it, too."""
    if request.tools:
        return NATIVELY
    text = "\n".join(message.content for message in request.messages)
    described = all(re.search(rf"\b{re.escape(name)}\b", text) and says in text for name, says in tools.items())
    return IN_TEXT if described else NOT_SHOWN


def run_card(run: Results, named: str | None, allow: Collection[str] = ()) -> Doc:
    """Return the card of a run's loop. `named`: which, by its name or an arm's; `allow`: code of the user's own that it needs.

    Raises RunError for several loops, one that cannot be made here or has changed, and code that is not allowed; Trouble.
    """
    every = run.comparison.infos
    names = [info.arm for info in every] if named is None else required_arms(run, named)
    loops = dict.fromkeys(info.without_profile for info in every if info.arm in names)
    if len(loops) != 1:
        raise RunError(f"{run.folder}: a card is of one loop: --arm {' or '.join(loops)}")
    agent = next(entry for entry in run.manifest.arms if entry.arm in names)
    spec = Spec(agent.loop, agent.options)
    if run.manifest.imported is None:
        allowed_code(run.folder, own_code(CompareConfig(loops=(str(spec),))), allow)
    loop = arm_loop(run, agent.arm, str(spec))
    if code_digest(loop) != agent.code:
        raise RunError(f"{run.folder}: {agent.arm}: its code has changed since this run")
    name = agent_name(spec)
    check = check_program(loop.with_step_limit(TOLD_STEPS), name)
    return card_doc(name, spec, loop, check, part_of(run, names), agent)


def card_doc(name: str, spec: Spec, loop: Loop, check: ProgramReport, run: Results, agent: ArmEntry) -> Doc:
    """Return the card of an agent. `spec`: the agent as it was named; `run`: of it alone, an arm for each profile, `agent` one."""
    arms, manifest, suite = run.comparison.arms, run.manifest, run.manifest.suite
    stops = sorted(stop.value for stop in loop.stops)
    wire = wire_uses(check.asked, tool_descriptions("chain"))
    options = _options(find("loop", spec.name), spec)
    by_outcome = {outcome: [each.fault for each in check.findings if each.outcome == outcome] for outcome in OUTCOMES}
    recovered = {outcome: len(faults) for outcome, faults in by_outcome.items() if faults and outcome in RECOVERED}
    lost = [(outcome.capitalize(), ", ".join(faults)) for outcome, faults in by_outcome.items() if outcome not in RECOVERED]
    heads, figures = ("figure", *(arm.info.profile for arm in arms)), _figures(run)
    blocks = (
        Table(f"{suite.name}, {suite.tasks} tasks, per trial", heads, figures[:MAIN_FIGURES]),
        lines_of(
            ("Recovers", f"from {sum(recovered.values())} of {len(check.findings)} faults, one at a time: {counts(recovered)}"),
            *lost,
            ("Basis", f"{agent.model} model: figures of this agent, no forecast for another model"),
        ),
        Table(
            f"Each fault; {len(check.asked)} requests undisturbed",
            ("fault", "what it is", "outcome", "requests", "how it ended"),
            tuple((each.fault, BY_NAME[each.fault].text, each.outcome, str(each.requests), each.detail) for each in check.findings),
            detail=True,
        ),
        Table("More figures, per trial", heads, figures[MAIN_FIGURES:], detail=True),
        Table(
            "What it asks its model for",
            ("role", "requests", "format", "calls per reply", "tools", "tool choice", "schema", "messages"),
            tuple(tuple(map(_cell, use.values())) for use in wire),
            detail=True,
        ),
        Table(
            "Options: context rules, limits, retries",
            ("option", "value", "what it means"),
            tuple((option, render_value(given["value"]), given["says"]) for option, given in options.items()),
            detail=True,
        ),
        Table(
            "Measured with",
            ("what", "value"),
            tuple((what, text) for what, text in _origin(run, agent, stops) if text),
            detail=True,
        ),
    )
    data = {
        "agent": {"name": name, "version": agent.version, "code": agent.code, "packages": agent.packages, "options": options},
        "wire": wire,
        "limits": {"tool_steps": suite.max_tool_steps, "stops": stops},
        "undisturbed_requests": len(check.asked),
        "faults": [finding.as_dict() for finding in check.findings],
        "figures": [arm.to_json() for arm in arms],
        "measured_with": {
            "run": str(run.folder.resolve()),
            "digest": run.digest,
            "model": agent.model,
            **{part: manifest.to_json()[part] for part in ORIGIN},
        },
    }
    return Doc(f"Harness card: {name}", blocks, data)


def _figures(run: Results) -> tuple[tuple[str, ...], ...]:
    """Return a row for each figure that is known of some arm."""
    of = [arm.summary for arm in run.comparison.arms]
    distances = dict.fromkeys(distance for summary in of for distance in summary.retention_at)
    known = {name: [measure_text(each.means[name], METRICS[name]) for each in of] for name in FIGURES}
    known |= {"recovery": [interval(each.recovery, 2) for each in of]}
    rows = [
        *((name, *known[name]) for name in dict.fromkeys(("accuracy", "recovery", *FIGURES))),
        *((f"retention at {at}", *(interval(summary.retention_at.get(at), 2) for summary in of)) for at in distances),
        ("ended by", *(counts(summary.stops) for summary in of)),
    ]
    return tuple(row for row in rows if any(cell != UNKNOWN for cell in row[1:]))


def _cell(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case (first, last):
            return f"{first} to {last}"
    return str(value) or UNKNOWN


def _origin(run: Results, agent: ArmEntry, stops: Sequence[str]) -> Sequence[tuple[str, str]]:
    manifest, suite = run.manifest, run.manifest.suite
    named = {**manifest.packages, "Python": manifest.python, **manifest.versions}
    return (
        ("suite", f"{suite.name} {suite.version}, {suite.digest[:DIGEST_CHARS]}"),
        ("tasks × repeats", f"{suite.tasks} × {manifest.settings.repeats}"),
        ("limit of tool steps", str(suite.max_tool_steps or "")),
        ("can end by", ", ".join(stops)),
        ("fault profiles", ", ".join(f"{name} {digest[:DIGEST_CHARS]}" for name, digest in manifest.profiles.items())),
        ("seed", str(manifest.seed)),
        ("version of the agent", agent.version),
        ("code of the agent", agent.code[:DIGEST_CHARS]),
        ("versions", ", ".join(f"{what} {version}" for what, version in named.items() if version)),
        ("digest of the results", run.digest[:DIGEST_CHARS]),
    )


def _options(design: Callable[..., Any], spec: Spec) -> dict[str, dict[str, Any]]:
    """Return every option of a design that has a value, typed or by default, with its line of documentation."""
    given = {name: (spec.options.get(name, option.default), option.doc) for name, option in options_of(design).items()}
    return {
        name: {"value": value if isinstance(value, str | int | float) else render_value(value), "says": says}
        for name, (value, says) in given.items()
        if value is not None and not isinstance(value, type)
    }
