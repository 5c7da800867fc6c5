"""Every built-in design keeps every law."""

from __future__ import annotations

import asyncio

import pytest

from tests.checks.loop.altered_loops import FEW, fewer_draws, finding_of, findings, not_kept, only_laws
from tests.checks.loop.broken_loops import Unfrozen
from tests.rows import row
from whichloop.checks.loop import LAWS, Finding, check_loop
from whichloop.checks.loop.template_loop import TemplateLoop
from whichloop.loops.bare import Bare
from whichloop.protocol.names import parse_spec
from whichloop.runs.built_in import builtin_names, options_of
from whichloop.runs.registry import find, make_loop


def spec_of(name: str) -> str:
    """A built-in design as it is typed; one that goes round another gets the bare one."""
    return f"{name}(loop=bare)" if "loop" in options_of(find("loop", name)) else name


ABLATIONS = (
    "bare(on_provider_error=observe, max_consecutive_errors=none)",
    "react_extract(extract=false)",
    "react_extract(on_parse_error=observe, on_unknown_tool=observe, extract=false)",
    "react_extract(overflow_attempts=0, parse_retries=2, tell_extract=true)",
    "repeat_guard(loop=bare, stop_at=5)",
    "phased(tool_layout=agent)",
    "stateless(execution_mode=parallel)",
)

DESIGNS = tuple(map(spec_of, builtin_names("loop")))


@row("X-15", "G-3")
@pytest.mark.parametrize("text", [*(design for design in DESIGNS if "loop=" not in design), "guarded(loop=bare)"])
def test_every_built_in_design_keeps_every_law(text):
    """With few draws; `test_every_design_keeps_every_law_whatever_is_drawn` has each wrapper by itself, and ablations."""
    assert not not_kept(make_loop(parse_spec(text)), draws=FEW)


@pytest.mark.slow
@pytest.mark.parametrize("text", [*DESIGNS, *ABLATIONS])
def test_every_design_keeps_every_law_whatever_is_drawn(text):
    assert not not_kept(make_loop(parse_spec(text)))


SOME = ("contract", "step limit", "provider error", "prompts")


def test_findings_come_in_the_order_of_the_laws_and_are_the_same_in_processes_of_their_own():
    loop = Bare(instructions=None)  # one that breaks some of them
    with fewer_draws(), only_laws(*SOME):
        found = check_loop(loop)
    whole = findings(loop, draws=FEW)
    assert [finding.law for finding in whole] == [law.name for law in LAWS]
    assert [finding for finding in whole if finding.law in SOME] == list(found)
    assert {finding.status for finding in found} == {"ok", "failed"}
    assert found[0] == Finding("contract", "ok")


def test_the_check_runs_inside_an_event_loop_too():
    async def inside() -> Finding:
        return finding_of("finishing", Bare())

    assert asyncio.run(inside()) == Finding("finishing", "ok")


def test_what_a_loop_declares_not_to_do_is_not_asked_of_it():
    class Hiding(TemplateLoop):
        shows_tool_errors = False

    assert finding_of("tool errors", Hiding()).status == "not run"
    assert finding_of("provider error", Bare(on_provider_error="observe")).status == "not run"
    assert finding_of("prompts", Unfrozen()).status == "not run"
