"""For each law there is a loop that breaks it and no other."""

from __future__ import annotations

import re
from typing import Self

import pytest

from tests.checks.loop.altered_loops import FEW, Own, finding_of, findings, not_kept, only_laws
from tests.checks.loop.broken_honesty import Clairvoyant, Forgetful, Indexing
from tests.checks.loop.broken_prompts import (
    Alike,
    Anonymous,
    Careful,
    Closed,
    Curt,
    Doubtful,
    Foresighted,
    Forgiving,
    Gossip,
    Handing,
    Impressed,
    Laconic,
    Misnamed,
    Quiet,
    Speechless,
)
from tests.checks.loop.broken_runs import (
    Apologetic,
    Beggar,
    Boaster,
    Brittle,
    Busybody,
    Careless,
    Deaf,
    Doubling,
    Endless,
    Generous,
    Itself,
    Late,
    Litterer,
    Mean,
    MixingUp,
    Mumbler,
    Nameless,
    Orphaning,
    Overconfident,
    Peeking,
    Racing,
    Renamed,
    Retrying,
    Shared,
    Silent,
    Sleepy,
    Spendthrift,
    Stripping,
    Stubborn,
    SystemLast,
    Terse,
    Text,
    Twice,
    Unfrozen,
    Untyped,
    Vague,
    speaking,
)
from whichloop.checks.loop import LAWS, check_loop
from whichloop.checks.loop.check import NOT_CHECKED
from whichloop.protocol import SILENT, Loop, Model, Observer, Outcome, Query, Toolbox

BROKEN: tuple[tuple[str, type[Loop], str], ...] = (
    ("contract", Nameless, "name is ''"),
    ("step limit", Generous, "tool steps were run; at most 1"),
    (
        "step limit",
        Mean,
        "a plan of 1 call: 1 call was made, and the run stopped as max_steps; .* a reply more to end",
    ),
    ("budget", Spendthrift, "returned an Outcome with stop max_steps"),
    ("budget", Beggar, "1 further model calls"),
    ("no state", Shared, "at the same time as others"),
    ("tool errors", Terse, "the frobnicator is jammed"),
    ("finishing", Busybody, "add was called after the model had answered"),
    ("finishing", Mumbler, "the answer is 'n'; 'no' is right"),
    (
        "typed answers",
        Untyped,
        "stops as finished: the answer is 'hello'; it must be an int",
    ),
    ("once", Twice, "add 2 times instead of 1 was run"),
    ("cancellation", Deaf, "returned an Outcome with stop max_steps"),
    ("cancellation", Stubborn, "did not end within"),
    ("cancellation", Litterer, "1 asyncio tasks are still running"),
    ("gold", Peeking, "a request holds the expected answer"),
    ("codecs", speaking(Stripping()), "came back as"),
    ("codecs", speaking(Careless()), "raised KeyError"),
    ("results", Indexing, "request 2 shows 1 receipts without what the tool gave"),
    ("own words", Clairvoyant, "and the answer is '8', which is right; it comes from the model"),
    ("stops", Boaster, "declared and never reached .*: forced"),
    ("stops", Silent, "stopped as max_steps, which `stops` does not declare"),
    ("order", Doubling, "two requests of scope '' are in flight together"),
    ("order", Racing, "with replies in another order .* the set of requests differs"),
    ("calls at once", MixingUp, r"with calls that end in another order \d results are given for another call"),
    ("outcome", Brittle, "raised LookupError"),
    ("provider error", Apologetic, "answered 'Sorry.'"),
    ("provider error", Retrying, "1 further model calls"),
    ("context overflow", Vague, "stopped as max_steps"),
    ("conversation", SystemLast, "message 2 is a system message|message 3 is a system message"),
    ("conversation", Orphaning, "does not stand open before it"),
    ("prompts", Doubtful, "request 1 differs in its messages; with its own prompts a loop must make the same requests"),
    ("prompts", Closed, "a request of 'decide' does not show its changed instructions"),
    ("prompts", Impressed, "with_predictors changed the loop itself; it must return another"),
    ("prompts", Handing, "with_predictors gave a dict; it must give a Handing"),
    ("prompts", Forgiving, "with_predictors accepts 'misspelt_decide', which is none of decide; it must raise a ValueError"),
    ("prompts", Curt, "with_predictors of 'misspelt_decide' raised KeyError"),
    ("prompts", Quiet, "Request.examples says 0 messages more"),
    ("prompts", Careful, "beside those that Request.examples announces, request 1 differs in its messages"),
    ("prompts", Anonymous, "no request names its predictor"),
    ("prompts", Misnamed, "a request is predictor 'other''s, which is none of decide"),
    ("prompts", Laconic, "the outputs of a call of 'decide' lack reply"),
    ("prompts", Foresighted, "the inputs of a call of 'decide' change during the run"),
    ("prompts", Alike, "predictors 'decide' and 'answer' have the same fields"),
    ("prompts", Speechless, "predictors is empty"),
    ("prompts", Gossip, "a request of predictor 'decide' shows the instructions of 'summarize'"),
)


pytestmark = pytest.mark.usefixtures("only_new_memory")

IN_NO_OTHER = (Shared, Peeking)
"""Loops of which each test looks at all laws; slow tests do so of every loop."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("law", "design", "said"),
    [pytest.param(*broken, marks=() if broken[1] in IN_NO_OTHER else pytest.mark.slow) for broken in BROKEN],
    ids=[design.__name__ for _, design, _ in BROKEN],
)
def test_a_loop_that_breaks_one_law_is_told_so_and_of_no_other(law, design, said):
    broken = not_kept(design(), draws=FEW)
    assert broken.keys() == {law}, broken
    assert re.search(said, broken[law])
    assert "\n" not in broken[law]


@pytest.mark.parametrize(("law", "design", "said"), BROKEN, ids=[design.__name__ for _, design, _ in BROKEN])
def test_a_loop_that_breaks_a_law_is_told_so(law, design, said):
    found = finding_of(law, design())
    assert found.status == "failed"
    assert re.search(said, found.detail)
    assert "\n" not in found.detail


def test_a_run_without_end_is_given_up():
    with only_laws("step limit", "outcome"):
        broken = not_kept(Endless(), draws=FEW)
    assert broken.keys() == {"step limit", "outcome"}
    assert "never readable: the run made more than 200 calls; it must end by itself" in broken["step limit"]


def test_a_loop_that_blocks_is_told_so_and_is_checked_no_further():
    _, second, *others = check_loop(Sleepy())
    assert (second.law, second.status) == ("waiting", "failed")
    assert re.search(r"stood still for 0\.\d\d s in each of 3 runs; await, or use a thread", second.detail)
    assert {(finding.status, finding.detail) for finding in others} == {("not applicable", NOT_CHECKED)}


def test_every_law_can_fail():
    assert {law for law, _, _ in BROKEN} | {"waiting"} == {law.name for law in LAWS}


@pytest.mark.slow
def test_the_template_that_these_loops_are_made_of_breaks_none():
    assert not not_kept(Own(), draws=FEW)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        (Renamed, "with_step_limit gave a TemplateLoop; it must give a Renamed"),
        (Unfrozen, "a run changed runs; the configuration is frozen"),
        (Itself, "with_step_limit changed limit of the loop itself"),
        (Text, "run() returned a str, not an Outcome"),
        (Late, "stops holds timeout, which only the harness sets"),
        (Overconfident, "confidence is 1.5"),
    ],
)
def test_what_is_no_loop_is_told_so(design, said):
    assert said in finding_of("contract", design()).detail


def test_an_attribute_that_raises_is_a_finding_and_no_crash_of_the_check():
    class Falling(Own):
        def with_step_limit(self, tool_steps: int) -> Self:
            raise RuntimeError("no limits here")

    broken = not_kept(Falling(), draws=FEW)
    assert len(broken) > 10
    (said,) = set(broken.values())
    assert re.fullmatch(r"the loop raised RuntimeError: no limits here at tests/checks/loop/test_broken_loops\.py:\d+", said)


class Falling(Own):
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        raise KeyError("boom")


def test_a_crash_is_told_with_its_line_and_a_law_that_no_run_came_to_is_not_called_kept():
    with only_laws("contract", "once", "gold", "results", "stops"):
        found = {finding.law: finding for finding in findings(Falling(), draws=FEW)}
    crash = rf"KeyError: 'boom' at tests/checks/loop/test_broken_loops\.py:{Falling.run.__code__.co_firstlineno + 1}"
    for law in ("contract", "stops"):
        assert found[law].status == "failed"
        assert re.search(f"run\\(\\) raised {crash}", found[law].detail)
    for law in ("once", "gold", "results"):
        assert found[law].status == "not applicable"
        assert re.search(rf"could not be looked at: no \w+ .*\((run\(\) raised )?{crash}\)", found[law].detail)


def test_a_loop_that_forgets_results_is_told_so_and_is_not_blamed_for_the_calls_that_the_model_repeats():
    with only_laws("step limit", "finishing", "once", "results"):
        broken = not_kept(Forgetful(), draws=FEW)
    assert broken.keys() == {"finishing", "results"}
    assert "'three calls': request 3 no longer shows the result of add, so the model asked for it again" in broken["results"]


def test_requests_without_a_codec_are_told_so():
    assert "has no codec" in finding_of("codecs", speaking(None)()).detail
