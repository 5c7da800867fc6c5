"""What each agent framework, and each of our five designs, does with one fault at a time; Markdown.

python benchmarks/framework_faults.py [--framework NAME …] [--group NAME …] [--write]

Frameworks that are not installed are left out, and named. --write renews the tables in docs/frameworks.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from frameworks import PAGE, arms_of
from pages import arguments_of, columns, write_block
from whichloop.checks.program import ProgramReport, Trouble, check_program
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.naming import TOLD_STEPS
from whichloop.protocol.names import parse_spec
from whichloop.runs.built_in import builtin_names
from whichloop.runs.registry import make_loop

GROUPS: Mapping[str, tuple[str, ...]] = {
    "calls": ("cut_json", "cut_length", "list_arguments", "missing_argument", "extra_argument", "wrong_type", "unknown_tool"),
    "replies": ("duplicate_ids", "two_calls", "empty", "prose", "refusal", "never_finishes", "repeats"),
    "tools": ("one_of_two_fails", "tool_raises", "tool_hangs", "huge_result"),
    "at once": ("late_first", "write_and_read", "one_of_two_hangs"),
    "provider": ("rate_limit", "server_error_once", "server_error_always", "dropped", "garbled", "cut_stream"),
}
WIDTH = 60
"""Of the column of agents."""
MARKS = {"silent": "SILENT", "unlimited": "UNLIMITED", "not applicable": "–"}


def reports(loops: Sequence[str], groups: Sequence[str]) -> Iterator[tuple[str, ProgramReport]]:
    """Loop → what it does with every fault of some groups."""
    faults = [BY_NAME[name] for group in groups for name in GROUPS[group]]
    for loop in loops:
        try:
            found = check_program(make_loop(parse_spec(loop), TOLD_STEPS), loop, faults=faults)
        except Trouble as trouble:
            print(f"left out: {loop}: {trouble}", file=sys.stderr)
            continue
        print(f"{loop} {found.version}", file=sys.stderr)
        yield loop, found


def table(found: Mapping[str, ProgramReport], faults: Sequence[str]) -> str:
    """Lines for the agents that do the same in every fault. Where the arms of a framework differ, its name says which one it is."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for loop, report in found.items():
        by_fault = {finding.fault: finding.outcome for finding in report.findings}
        alike.setdefault(tuple(MARKS.get(by_fault[fault], by_fault[fault]) for fault in faults), []).append(loop)
    rows = [[*faults, "agents"]]
    for outcomes, loops in alike.items():
        first, *more = wrap(", ".join(dict.fromkeys(named(loop, loops, found) for loop in loops)), WIDTH)
        rows += [[*outcomes, first], *([""] * len(faults) + [line] for line in more)]
    return "\n".join(columns(rows))


def named(loop: str, alike: Sequence[str], found: Iterable[str]) -> str:
    """Return a design's name, or a framework's with the reading of tools' errors, where its arms differ."""
    if design := re.fullmatch(r"provider_retry\(loop=(\w+)\)", loop):
        return design[1]
    name = loop.partition("(")[0]
    differ = {each for each in found if each.partition("(")[0] == name} - {*alike}
    return f"{name}({'shown' if 'shown' in loop else 'default'})" if differ else name


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--framework", action="append")
    parser.add_argument("--group", choices=GROUPS, action="append")
    given = parser.parse_args()
    groups = given.group or tuple(GROUPS)
    found = dict(reports(tuple(arms_of(given.framework or builtin_names("framework"))), groups))
    for name in groups:
        made = table(found, GROUPS[name])
        if given.write:
            write_block(PAGE, f"faults, {name}", made)
        print(f"\n## {name}\n\n{made}", flush=True)


if __name__ == "__main__":
    main()
