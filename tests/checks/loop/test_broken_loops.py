"""For each law there is a loop that breaks it and no other."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

import tests.checks.loop.broken_loops as runs
from tests.checks.loop.altered_loops import FEW, Own, finding_of, findings, not_kept, only_laws
from tests.checks.loop.broken_loops import asked, asking_again, ending, named, speaking, swallowing
from whichloop.checks.loop import LAWS, check_loop
from whichloop.checks.loop.template_loop import TemplateLoop
from whichloop.protocol import BudgetExceeded, Message, Outcome, Query, Request, StopReason


def with_message(*message: Any, **more: Any) -> Any:
    """Return what adds a message at the end of each request."""

    def change(request: Request) -> Request:
        return replace(request, messages=(*request.messages, Message(*message, **more)))

    return change


def vaguely(outcome: Outcome) -> Outcome:
    """Take an overflow for the limit, unless it is the first request."""
    late = outcome.stop is StopReason.CONTEXT_OVERFLOW and outcome.steps > 0
    return replace(outcome, stop=StopReason.MAX_STEPS) if late else outcome


def sorry(outcome: Outcome) -> Outcome:
    return replace(outcome, answer="Sorry.") if outcome.stop is StopReason.PROVIDER_ERROR else outcome


STOPS = TemplateLoop.stops
BROKEN: tuple[tuple[str, type[Any], str], ...] = (
    ("contract", named("Nameless", name=""), "name is ''"),
    ("step limit", runs.Generous, "3 tool steps were run; at most 1"),
    ("budget", swallowing("Spendthrift", BudgetExceeded), "returned an Outcome with stop max_steps"),
    ("no state", runs.Shared, "at the same time as others"),
    ("tool errors", runs.Terse, "the frobnicator is jammed"),
    ("finishing", runs.Busybody, "add was called after the model had answered"),
    ("typed answers", runs.Untyped, "stops as finished: the answer is 'hello'; it must be an int"),
    ("once", runs.Twice, "add 2 times instead of 1 was run"),
    ("cancellation", swallowing("Deaf", asyncio.CancelledError), "returned an Outcome with stop max_steps"),
    ("cancellation", asking_again("Stubborn", asyncio.CancelledError), "did not end within"),
    ("cancellation", runs.Litterer, "1 asyncio tasks are still running"),
    ("gold", runs.Peeking, "a request holds the expected answer"),
    ("codecs", speaking(runs.Stripping()), "came back as"),
    ("codecs", speaking(None), "has no codec"),
    ("results", runs.Indexing, "request 2 shows 1 receipts without what the tool gave"),
    ("own words", runs.Clairvoyant, "and the answer is '8', which is right; it comes from the model"),
    ("stops", named("Boaster", stops=STOPS | {StopReason.FORCED}), "declared and never reached .*: forced"),
    ("order", runs.Doubling, "two requests of scope '' are in flight together"),
    ("order", runs.Racing, "with replies in another order .* the requests differ"),
    ("calls at once", runs.MixingUp, r"with calls that end in another order \d results are given for another call"),
    ("outcome", runs.Brittle, "raised LookupError"),
    ("provider error", ending("Apologetic", sorry), "answered 'Sorry.'"),
    ("context overflow", ending("Vague", vaguely), "stopped as max_steps"),
    ("conversation", asked("SystemLast", with_message("system", "Be brief.")), "message [23] is a system message"),
    ("conversation", asked("Orphaning", with_message("tool", "3", call_id="call_0")), "does not stand open before it"),
    ("prompts", runs.Doubtful, "request 1 differs in its messages; with its own prompts a loop must make the same requests"),
    ("prompts", runs.Closed, "a request of 'decide' does not show its changed instructions"),
    ("prompts", runs.Forgiving, "with_predictors accepts 'misspelt_decide', which is none of decide; it must raise a ValueError"),
    ("prompts", runs.Quiet, "Request.examples says 0 messages more"),
    ("prompts", runs.Laconic, "the outputs of a call of 'decide' lack reply"),
)


pytestmark = pytest.mark.usefixtures("only_new_memory")


@pytest.mark.parametrize(("law", "design", "said"), BROKEN, ids=[design.__name__ for _, design, _ in BROKEN])
def test_a_loop_that_breaks_a_law_is_told_so(law, design, said):
    found = finding_of(law, design())
    assert found.status == "failed"
    assert re.search(said, found.detail)
    assert "\n" not in found.detail


def test_a_loop_that_remembers_earlier_runs_is_told_so():
    known: dict[str, Outcome] = {}

    class Remembering(Own):
        async def run(self, query: Query, *given: Any) -> Outcome:
            if query.text not in known:
                known[query.text] = await super().run(query, *given)
            return known[query.text]

    found = finding_of("no state", Remembering())
    assert (found.status, "a second time on the same instance" in found.detail) == ("failed", True)


def test_a_run_without_end_is_given_up():
    with only_laws("step limit", "outcome"):
        broken = not_kept(asking_again("Endless", while_text="%%% no format at all %%%")(), draws=FEW)
    assert broken.keys() == {"step limit", "outcome"}
    assert "never readable: the run made more than 200 calls; it must end by itself" in broken["step limit"]


def test_a_loop_that_blocks_is_told_so_and_is_checked_no_further():
    _, second, *others = check_loop(runs.Sleepy())
    assert (second.law, second.status) == ("waiting", "failed")
    assert re.search(r"stood still for 0\.\d\d s in each of 3 runs; await, or use a thread", second.detail)
    assert {finding.status for finding in others} == {"not run"}


def test_every_law_can_fail():
    assert {law for law, _, _ in BROKEN} | {"waiting"} == {law.name for law in LAWS}


@pytest.mark.parametrize(
    ("design", "said"),
    [
        (runs.Renamed, "with_step_limit gave a TemplateLoop; it must give a Renamed"),
        (runs.Unfrozen, "a run changed runs; the configuration is frozen"),
        (named("Late", stops=STOPS | {StopReason.TIMEOUT}), "stops holds timeout, which only the harness sets"),
        (ending("Overconfident", lambda outcome: replace(outcome, confidence=1.5)), "confidence is 1.5"),
    ],
)
def test_what_is_no_loop_is_told_so(design, said):
    assert said in finding_of("contract", design()).detail


BOOM = rf"run\(\) raised KeyError: 'boom' at tests/checks/loop/broken_loops\.py:{runs.Falling.run.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        *((named(f"No_{part}", **{part: None})(), f"it lacks {part}:") for part in ("name", "stops", "run", "with_step_limit")),
        (runs.Narrow(), "it cannot be called: too many positional arguments; a loop has run"),
        (runs.Falling(), BOOM),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_cannot_be_run_breaks_the_first_law_and_no_other_is_run(loop, said):
    first, *others = found = check_loop(loop)
    assert (first.law, first.status) == ("contract", "failed")
    assert re.search(said, first.detail)
    assert {finding.status for finding in others} == {"not run"}
    assert [finding.law for finding in found] == [law.name for law in LAWS]


def test_a_law_that_no_run_came_to_is_not_called_kept():
    with only_laws("once", "gold", "results"):
        found = findings(runs.Falling(), draws=FEW)
    assert {finding.status for finding in found} == {"not run"}
    assert all(re.search(r"could not be looked at: no .*KeyError: 'boom'", finding.detail) for finding in found)


def test_a_loop_that_forgets_results_is_told_so_and_is_not_blamed_for_the_calls_that_the_model_repeats():
    with only_laws("step limit", "finishing", "once", "results"):
        broken = not_kept(runs.Forgetful(), draws=FEW)
    assert broken.keys() == {"finishing", "results"}
    assert "'three calls': request 3 no longer shows the result of add, so the model asked for it again" in broken["results"]
