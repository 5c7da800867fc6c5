"""One check for anything: a loop, a program, a suite, plans or a model, told by what it is; and what it finds, as a document."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from whichloop.datasets.task import Suite
from whichloop.metrics.statistics import interval_json
from whichloop.protocol.modules import plugins_of
from whichloop.protocol.names import is_local_model, near, own_object, parse_spec
from whichloop.protocol.own_code import refuse_in_import
from whichloop.protocol.values import cap, counted
from whichloop.runs.built_in import builtin_names, loop_names
from whichloop.runs.config import SettingError, setting_error
from whichloop.runs.registry import make_loop, make_suite, tools_named
from whichloop.text import junit
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Style, Table, TraceLines, lines_of
from whichloop.text.numbers import interval
from whichloop.text.output import plain_line

from .loop.check import LAWS, check_loop
from .plans import TABLES, plan_doc, plan_findings
from .program.agent_faults import BY_NAME, FAULTS, OUTCOMES, RECOVERED, FaultFinding, parse_requirements
from .program.check import HANG_S, ProgramReport, Trouble, check_program
from .program.naming import ADDRESS, agent_of, is_command, is_loop, named_agent
from .shared.law import Finding, Law, Progress, unwatched
from .suite.check import CHECKS, Checked, check_suite

Kind = Literal["loop", "program", "suite", "plans", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "data": ("suite",), "tools": ("suite", "plans"), "run_tools": ("suite", "plans"), "tasks": ("suite",),
    "require": ("program",), "fault": ("program",), "venv": ("program",), "key": ("program",),
    "limit": ("loop", "program"), "base_url": ("model",),
}  # fmt: skip
"""Option → the kinds that it is for."""


class Options(BaseModel):
    """How a thing is checked, as `whichloop check --help` says; `OF_KINDS` says which kinds an option is for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Path | None = None
    tools: str | None = None
    run_tools: bool = False
    tasks: int | None = None
    require: Sequence[str] | None = None
    fault: Sequence[str] | None = None
    venv: str | None = None
    key: Sequence[str] | None = None
    limit: float | None = None
    """Seconds for each law of a loop (60; 900 for a foreign one), or for a program to leave a tool that hangs (5)."""
    base_url: str | None = None

    def check(self, kind: Kind) -> None:
        """Raise SettingError for an option that is not for this kind, or is none by its value."""
        for name, value in self:
            if value not in (None, False, (), []) and kind not in OF_KINDS[name]:
                wanted = " and ".join(f"`check {each}`" for each in OF_KINDS[name])
                raise SettingError(name, f"it is for {wanted}, not for `check {kind}`")
        if self.limit is not None and not 0 < self.limit < float("inf"):
            raise SettingError("limit", f"a number of seconds above 0 is needed, got {self.limit:g}")
        if self.run_tools and self.tools is None and kind == "plans":
            raise SettingError("run_tools", "it needs the tools: name their module with --tools")


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """What came of a check."""

    kind: Kind
    ok: bool
    doc: Doc

    def __repr__(self) -> str:
        return str(self.doc)


def check(thing: object, kind: Kind | None = None, progress: Progress = unwatched, **options: Any) -> Check:
    """Check a thing: its name, several words of a command, a path, or an object, such as a loop, a suite or a function.

    `kind`: what it is, where that cannot be told, see `told`. `options`: those of `Options`. `progress` hears how far it is.
    Raises ValueError and OSError for what cannot be checked.
    """
    refuse_in_import()
    if kind not in (None, *KINDS):
        raise SettingError("kind", f"it is one of {', '.join(KINDS)}, got {kind!r}")
    try:
        chosen = Options(**options)
    except ValidationError as error:
        raise setting_error(error, model=Options) from None
    words = [thing] if isinstance(thing, str) else list(thing) if isinstance(thing, list | tuple) else []
    kind = kind or (told(words)[0] if words else _kind_of(thing, str(thing)))
    chosen.check(kind)
    if kind == "program":
        return _check_program(thing, words, chosen, progress)
    if len(words) > 1:
        raise ValueError(f"check {kind} takes one name, with its options in brackets; got {shlex.join(words)}")
    name = words[0] if words else str(thing)
    if kind == "model":
        return _check_model(name, chosen)
    if kind == "plans":
        return _check_plans(name, chosen)
    made: Any = thing
    if words:
        spec = parse_spec(name)
        made, name = make_loop(spec) if kind == "loop" else make_suite(spec, chosen.data, chosen.tools), str(spec)
    else:
        made = made() if isinstance(made, type) or (kind == "suite" and callable(made)) else made
        name = getattr(made, "name", type(made).__name__)
    if kind == "loop":
        loop_findings = check_loop(made, _counting(progress, len(LAWS)), limit_s=chosen.limit)
        doc = _laws_doc(kind, name, LAWS, loop_findings)
        return Check(kind, doc.data["ok"], doc)
    is_ours = bool(words) and spec.name in builtin_names("suite") and chosen.tools is None
    checked = check_suite(made, tasks=chosen.tasks, run_tools=chosen.run_tools or is_ours, progress=progress)
    return Check(kind, checked.ok, suite_doc(name, checked))


def told(words: Sequence[str]) -> tuple[Kind, Sequence[str]]:
    """Return what words name, and the words without that of a kind in front. Nothing is run but the import of `module:Name`.

    The name of a loop or framework is a loop, that of a suite a suite; a file that ends as plans do holds plans; an address, a
    `.py` file or a function in one, a command and several words are a program; `local`, `local:FILE`, `provider/name` are models;
    `module:Name` is what it is: a loop has `run`, a suite needs no argument, any other function is a program. Raises ValueError for
    anything else.
    """
    first, *rest = words
    if first in KINDS and not rest:
        raise ValueError(f"check {first}: name what is to be checked")
    if rest:
        return (first, rest) if first in KINDS else ("program", words)
    name = first.partition("(")[0].partition("@")[0].strip()
    loops, suites = ([*known, *(point.name for point in plugins_of(group))] for group, known in (
        ("whichloop.loops", loop_names()), ("whichloop.suites", builtin_names("suite"))
    ))  # fmt: skip
    if first.startswith(ADDRESS) or ".py:" in first:
        return "program", words
    if is_local_model(first):
        return "model", words
    if name in loops or name in suites:
        return "loop" if name in loops else "suite", words
    if Path(first).suffix.lower() in (*TABLES, ".json", ".txt", ".plan"):
        return "plans", words
    if ":" in name:
        return _kind_of(own_object("check", parse_spec(first).name), first), words
    if " " in first.strip() or first.endswith(".py") or is_command(first):
        return "program", words
    if re.match(r"[\w-]+/\w", first) and not Path(first).exists():
        return "model", words
    hint = f" {near(name, [*loops, *suites])}".rstrip()
    raise ValueError(f"it cannot be told what {first!r} is;{hint} write check KIND {first}, where KIND is {', '.join(KINDS)}")


def _kind_of(thing: object, name: str) -> Kind:
    """Return what an object is. Raises ValueError."""
    if is_loop(thing):
        return "loop"
    if isinstance(thing, Suite):
        return "suite"
    if isinstance(thing, Path):
        return "plans"
    if callable(thing):
        needed = [each for each in inspect.signature(thing).parameters.values() if each.default is each.empty]
        return "program" if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in needed) else "suite"
    raise ValueError(f"{name}: it is neither a loop, nor a suite, nor a function")


def _check_plans(name: str, options: Options) -> Check:
    tools = None if options.tools is None else tools_named(options.tools)
    findings = plan_findings(Path(name), tools, run_tools=options.run_tools)
    if not findings.plans and not findings.problems:  # or a check in CI passes on a file whose column is misspelt
        unused = f"; {findings.unused}" if findings.unused else ""
        raise ValueError(f"{name}: there is no plan to check in {counted(len(findings.tasks), 'task')}{unused}")
    return Check("plans", not findings.problems, plan_doc(name, findings, has_tools=tools is not None))


def _check_program(thing: object, words: Sequence[str], options: Options, progress: Progress) -> Check:
    for fault in options.fault or ():
        if fault not in BY_NAME:
            raise SettingError("fault", f"there is no fault {fault!r}; {near(fault, BY_NAME) or ', '.join(BY_NAME)}")
    faults = tuple(fault for fault in FAULTS if not options.fault or fault.name in options.fault)
    try:
        demanded = parse_requirements(",".join(options.require or ()))
    except ValueError as error:
        raise SettingError("require", str(error)) from None
    if left_out := demanded.keys() - {fault.name for fault in faults}:
        raise SettingError("require", f"{min(left_out)} is demanded, and --fault leaves it out")
    loop, name = named_agent(words, options.venv, options.key or ()) if words else agent_of(thing)  # type: ignore[arg-type]  # it says so itself
    try:
        report = check_program(
            loop, name, faults=faults, hang_s=options.limit or HANG_S, on_finding=_counting(progress, len(faults))
        )
    except Trouble as trouble:
        said = _data("program", name, False, trouble=str(trouble))
        return Check("program", False, Doc(f"program {name}", (lines_of(("Trouble", str(trouble))),), said))
    return Check("program", not report.missing(demanded), program_doc(report, demanded))


def _check_model(name: str, options: Options) -> Check:
    from whichloop.models.local.model import open_model  # noqa: PLC0415  # only some checks need it
    from whichloop.models.probe import ProbeReport, probe  # noqa: PLC0415  # only some checks need it

    async def ask() -> ProbeReport:
        model = open_model(name, options.base_url)
        try:
            return await probe(model)
        finally:
            await model.aclose()

    report = asyncio.run(ask())
    answers = {True: Cell("yes", "good"), False: Cell("no", "bad"), None: Cell("?", "warn")}
    rows = []
    for check in report.checks:
        usage, seconds = check.usage, UNKNOWN if check.seconds is None else f"{check.seconds:.2f}"
        tokens = (UNKNOWN, UNKNOWN) if usage is None else (str(usage.input_tokens), str(usage.output_tokens))
        cost = UNKNOWN if usage is None or usage.cost_usd is None else f"{usage.cost_usd:.6f}"
        rows.append((check.name, answers[check.works], seconds, *tokens, cost))
    reasons = tuple((check.name, check.why_not) for check in report.checks if check.why_not)
    blocks = (
        Table("", ("asked", "works", "seconds", "tokens in", "out", "US$"), tuple(rows)),
        lines_of(("Trouble", f"it does not answer: {report.trouble}" if report.trouble else "")),
        Table("Why not", ("asked", "why"), reasons, detail=True),
    )
    has_answered = report.capabilities is not None
    data = {"model": name, "answers": has_answered, "trouble": report.trouble}
    data |= {"capabilities": None if report.capabilities is None else asdict(report.capabilities)}
    data |= {"checks": [asdict(check) for check in report.checks]}
    return Check("model", has_answered, Doc(f"model {name}", blocks, data))


def _counting(progress: Progress, total: int) -> Callable[[object], None]:
    """Return what hears of each finding, and tells who watches how many there are."""
    count = itertools.count(1)
    return lambda finding: progress("checked", next(count), total)


def _data(kind: str, name: str, ok: bool, findings: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    """Return the one form of what `check --json` prints; each finding has `name`, `status` and `detail`."""
    return {"kind": kind, "name": name, "ok": ok, "findings": list(findings), **more}


def suite_doc(name: str, checked: Checked) -> Doc:
    """Return the problems, how many laws hold, the agents that must not pass, and behind it all laws."""
    set_aside = {task.id: task.quarantined for task in checked.suite.tasks if task.quarantined}
    count = len(checked.suite.tasks) - len(set_aside)
    rows, baselines = [], []
    for each in checked.baselines:
        share, too_many = each.share, each.is_too_many
        scored, mark = str(0 if share is None else share.n), Cell("TOO MANY" if too_many else "", "bad")
        rows.append((each.baseline.name, interval(share, 3), scored, mark, each.baseline.text))
        data = {"passes": interval_json(share), "too_many": too_many, "not_scored": len(each.not_scored)}
        baselines.append({"agent": each.baseline.name, **data})
    agents = Table("Agents, and the share of tasks that they pass", ("agent", "passes", "tasks", "", "what it does"), tuple(rows))
    lines = lines_of(
        ("Tasks", f"{count:,}"),
        ("Set aside", f"{len(set_aside):,} tasks" if set_aside else ""),
        ("Called", f"tools of {checked.sample:,} tasks" if checked.ran_tools else "no tool"),
    )
    more = {"version": checked.suite.version, "tasks": count, "sample": checked.sample, "ran_tools": checked.ran_tools}
    more |= {"baselines": baselines, "quarantined": set_aside}
    return _laws_doc("suite", name, CHECKS, checked.findings, [lines, agents], **more)


def _laws_doc(
    kind: str, name: str, laws: Sequence[Law], findings: Sequence[Finding], told: Sequence[Block] = (), **more: Any
) -> Doc:
    """Return the laws that do not hold or were not run, how many hold, and behind it all laws."""
    styles: Mapping[str, Style] = {"ok": "good", "failed": "bad"}
    results = {
        one.law: Cell("FAILED" if one.status == "failed" else one.status, styles.get(one.status, "warn")) for one in findings
    }
    counts, ends = Counter(one.status for one in findings), any(one.ends for one in findings)
    rows: list[tuple[Cell | str, ...]] = []
    for one in findings:
        if one.status == "ok" or (ends and one.status == "not run"):
            continue
        rows += [(one.law, results[one.law], one.detail), *(("", "", text) for text in one.others[:4])]
        if one.count > 5:
            rows.append(("", "", Cell(f"and {one.count - 5} more", "dim")))
    of_all = f"of {len(findings)} laws"
    blocks: list[Block] = [
        Table("", ("law", "result", "why"), tuple(rows)),
        lines_of(
            ("Hold", f"{counts['ok']} {of_all}"),
            ("Broken", f"{counts['failed']} {of_all}" if counts["failed"] else ""),
            ("Not run", f"{counts['not run']} {of_all}" if counts["not run"] else ""),
        ),
        *told,
        Table("Laws", ("law", "result", "it says"), tuple((law.name, results[law.name], law.text) for law in laws), detail=True),
    ]
    data = _data(kind, name, not counts["failed"], [one.as_dict() for one in findings], **more)
    return Doc(f"{kind} {name}", tuple(blocks), data)


def program_doc(report: ProgramReport, demanded: Mapping[str, str]) -> Doc:
    """Return a row for each fault, what the outcomes mean, and what was demanded; as details all that the model was told."""
    missing = report.missing(demanded)
    counts = Counter(finding.outcome for finding in report.findings)
    meanings = tuple((outcome, str(counts[outcome]), means) for outcome, means in OUTCOMES.items() if counts[outcome])
    faults, told = [], []
    for each in report.findings:
        text, wanted = BY_NAME[each.fault].text, demanded.get(each.fault, UNKNOWN)
        faults.append((each.fault, text, wanted, str(each.requests), str(each.calls)))
        if each.shown:
            title = f"{each.fault}, {each.outcome}: request {each.request}"
            told.append(TraceLines(title, tuple(each.shown.split("\n")), detail=True))
    lines = lines_of(
        ("Demanded", f"{len(demanded) - len(missing)} of {len(demanded)} outcomes are there" if demanded else ""),
        ("Missing", list(missing.values())),
    )
    blocks: tuple[Block, ...] = (
        Table("", ("fault", "outcome", "how it ended"), tuple(row for finding in report.findings for row in _rows(finding))),
        Table("Outcomes", ("outcome", "faults", "means"), meanings),
        lines,
        Table("Faults", ("fault", "what happens", "demanded", "requests", "calls"), tuple(faults), detail=True),
        *told,
    )
    findings = [
        each.as_dict() | ({"status": "failed", "demanded": demanded[each.fault]} if each.fault in missing else {})
        for each in report.findings
    ]
    data = _data("program", report.agent, not missing, findings, version=report.version, requests=len(report.asked))
    return Doc(f"program {report.title}", blocks, data)


def _rows(finding: FaultFinding) -> Iterator[tuple[Cell | str, ...]]:
    sound = finding.outcome in ("told", "handled") or finding.outcome in BY_NAME[finding.fault].sound - RECOVERED
    style: Style = "dim" if finding.outcome == "not applicable" else "good" if sound else "warn" if finding.recovered else "bad"
    yield finding.fault, Cell(finding.outcome, style), finding.detail
    if finding.shown and finding.outcome in ("told", "untold", "unaware"):
        yield "", "", Cell(f"request {finding.request} says: {cap(plain_line(finding.shown), 160)}", "dim")


def program_junit(said: Mapping[str, Any]) -> str:
    """Return a test for each fault, which fails where a demanded outcome is missing; of an agent in trouble one with an error.

    `said`: the data of the document.
    """
    root, title = junit.suites("whichloop check program"), f"{said['name']} {said.get('version', '')}".strip()
    if "trouble" in said:
        case = junit.add_case(junit.add_suite(root, title, 1, {"error": 1}), title, "without any fault")
        junit.add_result(case, "error", said["trouble"])
        return junit.document(root)
    kinds = {"failed": "failure", "not run": "skipped"}
    suite = junit.add_suite(root, title, len(said["findings"]), Counter(kinds.get(each["status"], "") for each in said["findings"]))
    for each in said["findings"]:
        case, told = junit.add_case(suite, title, each["name"]), f"{each['outcome']}: {each['detail']}"
        if each["status"] in kinds:
            missing = f"{each['name']}: demanded {each['demanded']}, found {each['outcome']}" if "demanded" in each else told
            junit.add_result(case, kinds[each["status"]], missing, each["shown"])
        junit.add_output(case, f"{BY_NAME[each['name']].text}\n{told}\n{each['shown']}")
    return junit.document(root)
