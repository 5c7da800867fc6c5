"""What a card discloses, and where each value comes from: a run's manifest and records, requests, and the check with each fault."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from whichloop.checks.program import OUTCOMES, RECOVERED, ProgramReport
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.bench import tool_descriptions
from whichloop.experiments.compare.results import Results
from whichloop.metrics.summary import SHARES, measures_of
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Loop, Request, render_value
from whichloop.protocol.names import Spec
from whichloop.protocol.values import counted
from whichloop.runs.built_in import options_of
from whichloop.runs.registry import find
from whichloop.text.doc import Table, markdown_page
from whichloop.text.numbers import interval

NATIVELY, IN_TEXT, NOT_SHOWN = "offered natively", "described in the text", "not shown"


@dataclass(frozen=True, slots=True)
class WireUse:
    """The requests of one role."""

    role: str
    requests: int
    format: str
    """Name of the format in which replies are read."""
    calls_per_reply: int
    """Calls that a reply of this format can make at most."""
    tools: str
    """How the tools are shown: offered natively, described in the text, or not."""
    tool_choice: str
    """What the requests demand of native calls; empty: nothing."""
    response_schema: bool
    """Whether a schema for the reply is sent."""
    messages: tuple[int, int]
    """Messages of the first request and of the last one."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def wire_uses(requests: Sequence[Request], tools: Mapping[str, str]) -> tuple[WireUse, ...]:
    """Return what an agent's requests are like, role by role, in the order in which roles come up. `tools`: name → description."""
    roles = dict.fromkeys(request.role for request in requests)
    return tuple(_use([request for request in requests if request.role is role], tools) for role in roles)


def _use(requests: Sequence[Request], tools: Mapping[str, str]) -> WireUse:
    codecs = [request.codec or NATIVE for request in requests]
    return WireUse(
        role=requests[0].role.value,
        requests=len(requests),
        format=" or ".join(dict.fromkeys(codec.name for codec in codecs)),
        calls_per_reply=min(
            codec.max_calls if request.parallel_calls else 1 for codec, request in zip(codecs, requests, strict=True)
        ),
        tools=" or ".join(dict.fromkeys(_way_of_showing(request, tools) for request in requests)),
        tool_choice=" or ".join(dict.fromkeys(request.tool_choice for request in requests if request.tool_choice)),
        response_schema=any(request.response_schema is not None for request in requests),
        messages=(len(requests[0].messages), len(requests[-1].messages)),
    )


def _way_of_showing(request: Request, tools: Mapping[str, str]) -> str:
    """Say how tools are shown. A name alone does not count: a question or a result may have it, too."""
    if request.tools:
        return NATIVELY
    text = "\n".join(message.content for message in request.messages)
    described = all(re.search(rf"\b{re.escape(name)}\b", text) and says in text for name, says in tools.items())
    return IN_TEXT if described else NOT_SHOWN


FIGURES = (
    "accuracy", "recovery", "steps", "lm_calls", "tokens", "retention", "prefix_stability", "tokens_with_cache",
    *measures_of("calls"), *measures_of("injection"), "cost_usd",
)  # fmt: skip
"""What a card says of each arm of its run, each with an interval."""
DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True)
class HarnessCard:
    """One agent, disclosed."""

    name: str
    options: Mapping[str, Mapping[str, Any]]
    """Option → its value and what it means."""
    stops: tuple[str, ...]
    """The ways in which it can end."""
    wire: tuple[WireUse, ...]
    check: ProgramReport
    run: Results

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; its names are stable."""
        manifest = self.run.manifest
        arm = manifest.arms[0]
        return {
            "agent": {
                "name": self.name,
                "version": arm.version,
                "code": arm.code,
                "packages": arm.packages,
                "options": {name: dict(option) for name, option in self.options.items()},
            },
            "wire": [use.to_json() for use in self.wire],
            "limits": {"tool_steps": manifest.suite.max_tool_steps, "stops": list(self.stops)},
            "undisturbed_requests": self.check.requests,
            "faults": [finding.as_dict() for finding in self.check.findings],
            "figures": [
                {name: value for name, value in result.to_json().items() if name in _ARM} for result in self.run.comparison.arms
            ],
            "measured_with": {
                "run": str(self.run.folder.resolve()),
                "digest": self.run.digest,
                "model": arm.model,
                "suite": manifest.suite.to_json(),
                "profiles": manifest.profiles,
                "seed": manifest.seed,
                "versions": manifest.versions,
                "packages": manifest.packages,
                "python": manifest.python,
                "created": manifest.created,
            },
        }

    def to_markdown(self) -> str:
        """Return the card as a page in Markdown."""
        tables = (self._figures(), self._faults(), self._wire(), self._options(), self._origin())
        return markdown_page(f"Harness card: {self.name}", [table for table in tables if table.rows], NOTES, self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the card says first."""
        counts = Counter(finding.outcome for finding in self.check.findings)
        recovered = sum(counts[outcome] for outcome in RECOVERED)
        rest = ", ".join(f"{OUTCOMES[name]}: {counts[name]}" for name in OUTCOMES if name not in RECOVERED and counts[name])
        arms = [arm for arm in self.run.comparison.arms if arm.summary.accuracy is not None]
        solved = "; ".join(f"{interval(arm.summary.accuracy, 3)} under {arm.info.profile}" for arm in arms)
        return (
            f"{self.name} solves of {self.run.manifest.suite.name}'s tasks: {solved}",
            f"Of {counted(len(self.check.findings), 'fault')}, one at a time, it recovers from {recovered}; {rest}",
        )

    def _figures(self) -> Table:
        arms = self.run.comparison.arms
        rows = []
        for name in FIGURES:
            values = [arm.summary.recovery if name == "recovery" else arm.summary.means[name] for arm in arms]
            digits = 5 if name == "cost_usd" else 3 if name == "recovery" or name in SHARES else 1
            rows.append((name, *(interval(value, digits) for value in values)))
        rows += [
            (f"retention at {distance}", *(interval(arm.summary.retention_at.get(distance), 3) for arm in arms))
            for distance in dict.fromkeys(distance for arm in arms for distance in arm.summary.retention_at)
        ]
        rows.append(("ended by", *(", ".join(f"{stop} {count}" for stop, count in arm.summary.stops.items()) for arm in arms)))
        known_rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
        return Table("Figures, per trial", ("figure", *(arm.info.profile for arm in arms)), tuple(known_rows))

    def _faults(self) -> Table:
        rows = tuple(
            (finding.fault, BY_NAME[finding.fault].says, finding.outcome, str(finding.requests), finding.detail)
            for finding in self.check.findings
        )
        title = f"What happens on each fault; an undisturbed run takes {counted(self.check.requests, 'request')}"
        return Table(title, ("fault", "what it is", "outcome", "requests", "how it ended"), rows)

    def _wire(self) -> Table:
        columns = ("role", "requests", "format", "calls per reply", "tools", "tool choice", "schema", "messages, first to last")
        rows = tuple(
            (
                use.role,
                str(use.requests),
                use.format,
                str(use.calls_per_reply),
                use.tools,
                use.tool_choice or "–",
                "yes" if use.response_schema else "no",
                f"{use.messages[0]} to {use.messages[1]}",
            )
            for use in self.wire
        )
        return Table("What it asks its model for, in an undisturbed run", columns, rows)

    def _options(self) -> Table:
        rows = tuple((name, render_value(option["value"]), option["says"]) for name, option in self.options.items())
        return Table("Options: context rules, limits, retries", ("option", "value", "what it means"), rows)

    def _origin(self) -> Table:
        manifest = self.run.manifest
        suite, arm = manifest.suite, manifest.arms[0]
        tasks, limit = counted(suite.tasks, "task"), suite.max_tool_steps
        rows = [
            ("model", arm.model),
            ("suite", f"{suite.name} {suite.version}, {tasks} × {manifest.settings.repeats}, {_short_digest(suite.digest)}"),
            ("limit of the comparison", "–" if limit is None else counted(limit, "tool step")),
            ("can end by", ", ".join(self.stops)),
            ("fault profiles", ", ".join(f"{name} {_short_digest(digest)}" for name, digest in manifest.profiles.items())),
            ("seed", str(manifest.seed)),
            ("version of the agent", arm.version or "–"),
            ("code of the agent", _short_digest(arm.code) or "–"),
            ("whichloop", str(manifest.packages.get("whichloop", "–"))),
            ("versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items() if version is not None)),
            ("Python", manifest.python),
            ("digest of the results", _short_digest(self.run.digest)),
        ]
        return Table("Measured with", ("what", "value"), tuple(row for row in rows if row[1] not in ("", "–")))


_ARM = frozenset({"arm", "model", "profile", "suite", "tasks", "scored", "retention_at", "stops", "faults", *FIGURES})
"""What a card's JSON keeps of an arm's."""
NOTES = (
    "Every value is read from the run's manifest and records, from the requests of an undisturbed run, or from a run with one "
    "fault. The model is scripted: figures speak of this harness, and predict no accuracy with a real model.",
    "Brackets are 95 % intervals. docs/measures.md and docs/reference.md explain figures, docs/check-program.md outcomes.",
)


def harness_card(name: str, spec: Spec, loop: Loop, check: ProgramReport, run: Results) -> HarnessCard:
    """Put a card together. `spec`: the agent as it was named; `run`: of this agent alone, an arm for each profile."""
    stops = tuple(sorted(stop.value for stop in loop.stops))
    wire = wire_uses(check.asked, tool_descriptions("chain"))
    return HarnessCard(name, _options_with_values(find("loop", spec.name), spec), stops, wire, check, run)


def _options_with_values(design: Callable[..., Any], spec: Spec) -> dict[str, dict[str, Any]]:
    """Return every option of a design that has a value, typed or by default, with its line of documentation."""
    values = {
        name: {"value": spec.options.get(name, option.default), "says": option.doc} for name, option in options_of(design).items()
    }
    return {
        name: option | {"value": option["value"] if _is_plain(option["value"]) else render_value(option["value"])}
        for name, option in values.items()
        if option["value"] is not None and not isinstance(option["value"], type)
    }


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _short_digest(digest: str) -> str:
    return digest[:DIGEST_CHARS]
