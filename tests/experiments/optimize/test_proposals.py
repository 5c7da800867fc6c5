"""An optimizer's own requests: counted, bounded, and the same again from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.experiments.optimize.candidates import SearchCost
from whichloop.experiments.optimize.compiling import BudgetSpent
from whichloop.experiments.optimize.proposals import Proposals
from whichloop.experiments.optimize.rollouts import Background, RunStopped
from whichloop.models.metering import Budget, Meter
from whichloop.models.prices import Price
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import Message, Model, ProviderError, Reply, Request, WrappedModel, run_sync
from whichloop.protocol.model import ProviderTrouble
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.context_use import Pricing

ASKS = "Your output fields are:\n1. `proposed_instruction` (str):\n[[ ## proposed_instruction ## ]]\n"
Make = Callable[..., Proposals]


def request(number: int) -> Request:
    return Request((Message("system", ASKS), Message("user", f"Improve instruction {number}.")))


@pytest.fixture
def proposals_of(tmp_path: Path) -> Iterator[Make]:
    """Makes proposals over one log; made again, they go on with it."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        made: list[Proposals] = []

        def make(model: Model | None = None, told: Callable[[SearchCost], None] = lambda spent: None, **budget: int) -> Proposals:
            for earlier in made:
                earlier.close()
            meter = Meter(Budget(**budget))
            proposals = Proposals(model or ScriptedProposer(0), meter, background, tmp_path / "proposals.jsonl", told)
            made.append(stack.enter_context(closing(proposals)))
            return proposals

        yield make


def asked(proposals: Proposals, numbers: list[int]) -> list[Reply]:
    return [run_sync(proposals.complete(request(number))) for number in numbers]


@given(st.lists(st.integers(0, 2), max_size=8), st.integers(0, 8))
@settings(max_examples=cases(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gone_through_again_after_a_kill_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], until: int
) -> None:
    with Background() as background:

        def made(name: str) -> Proposals:
            return Proposals(ScriptedProposer(0), Meter(), background, folder / name, lambda spent: None)

        folder = tmp_path_factory.mktemp("proposals")
        with closing(made("whole")) as whole:
            expected = asked(whole, numbers)
        with closing(made("cut")) as cut:
            asked(cut, numbers[:until])
        with closing(made("cut")) as again:
            assert asked(again, numbers) == expected
            assert again.spent == whole.spent


class Failing(WrappedModel):
    """Answers nothing."""

    def __init__(self, kind: ProviderTrouble = "server") -> None:
        super().__init__(ScriptedProposer(0))
        self.kind = kind

    async def complete(self, request: Request) -> Reply:
        raise ProviderError("nobody is there", self.kind)


def test_what_is_in_the_log_is_not_asked(proposals_of: Make) -> None:
    first = asked(proposals_of(), [1, 1, 2])
    again = proposals_of(Failing())
    assert asked(again, [1, 1, 2]) == first
    with pytest.raises(RunStopped):
        asked(again, [1])


@pytest.mark.parametrize("kind", get_args(ProviderTrouble))
def test_a_provider_that_fails_stops_the_run_unless_the_request_is_to_blame(proposals_of: Make, kind: ProviderTrouble) -> None:
    """Else the design would have ended, once and for all, with the program that it began with."""
    expected = ProviderError if kind in ("bad_request", "refused") else RunStopped
    with pytest.raises(expected, match="nobody is there"):
        asked(proposals_of(Failing(kind)), [1])


def test_many_threads_count_every_request(proposals_of: Make) -> None:
    told: list[SearchCost] = []
    proposals = proposals_of(told=told.append)
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda number: asked(proposals, [number]), range(40))]
    assert [spent.calls for spent in told] == [*range(1, 41)]
    assert proposals.meter.calls == proposals.spent.calls == 40


def test_its_own_requests_have_a_budget_of_their_own(proposals_of: Make) -> None:
    told: list[SearchCost] = []
    proposals = proposals_of(told=told.append, calls=2)
    asked(proposals, [1, 2])
    with pytest.raises(BudgetSpent, match="the optimizer's own requests: budget of 2 model calls used up"):
        asked(proposals, [3])
    assert [spent.calls for spent in told] == [1, 2]
    assert told[-1] == proposals.spent
    assert proposals.spent.trials == 0
    assert proposals.spent.tokens > 0


def test_a_log_that_is_none_is_named(proposals_of: Make, tmp_path: Path) -> None:
    (tmp_path / "proposals.jsonl").write_text('{"request": "a"}\n', "utf-8")
    reseal(tmp_path / "proposals.jsonl")
    with pytest.raises(RunError, match=r"proposals\.jsonl:1: not a proposal: KeyError"):
        proposals_of()


@given(st.lists(st.integers(0, 2), max_size=6), st.integers(0, 6))
@settings(max_examples=cases(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_priced_proposal_costs_what_its_tokens_do_also_from_the_log(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], until: int
) -> None:
    price, log = Price(2.0, 8.0), tmp_path_factory.mktemp("proposals") / "proposals.jsonl"
    with Background() as background:

        def made() -> Proposals:
            return Proposals(ScriptedProposer(0), Meter(), background, log, lambda spent: None, Pricing(price))

        with closing(made()) as cut:
            asked(cut, numbers[:until])
        with closing(made()) as again:
            replies = asked(again, numbers)
            costs = [price.on(reply.usage).cost_usd or 0.0 for reply in replies if reply.usage is not None]
            assert again.spent.dollars == (pytest.approx(sum(costs)) if numbers else None)
            assert again.meter.dollars == pytest.approx(sum(costs))
            assert [reply.usage.cost_usd for reply in replies if reply.usage is not None] == costs


def test_a_budget_of_dollars_bounds_priced_proposals(tmp_path: Path) -> None:
    with Background() as background:
        meter = Meter(Budget(dollars=1e-9))
        log = tmp_path / "proposals.jsonl"
        with closing(
            Proposals(ScriptedProposer(0), meter, background, log, lambda spent: None, Pricing(Price(2.0, 8.0)))
        ) as priced:
            asked(priced, [1])
            with pytest.raises(BudgetSpent, match="dollars used up"):
                asked(priced, [2])
