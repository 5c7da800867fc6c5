"""An optimizer's own requests: counted, bounded, and the same again from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.optimize.compiling import SearchOver
from whichloop.experiments.optimize.rollouts import Background, Proposals, RunStopped
from whichloop.models.metering import Budget, Meter
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import Message, Model, ProviderError, Reply, Request, WrappedModel, run_sync
from whichloop.protocol.model import ProviderTrouble

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

        def make(model: Model | None = None, **budget: int) -> Proposals:
            for earlier in made:
                earlier.close()
            meter = Meter(Budget(**budget))
            proposals = Proposals(model or ScriptedProposer(0), meter, background, tmp_path / "proposals.jsonl", lambda: None)
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
            return Proposals(ScriptedProposer(0), Meter(), background, folder / name, lambda: None)

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


@pytest.mark.parametrize("kind", get_args(ProviderTrouble))
def test_a_provider_that_fails_stops_the_run_unless_the_request_is_to_blame(proposals_of: Make, kind: ProviderTrouble) -> None:
    """Else the design would have ended, once and for all, with the program that it began with."""
    expected = ProviderError if kind in ("bad_request", "refused") else RunStopped
    with pytest.raises(expected, match="nobody is there"):
        asked(proposals_of(Failing(kind)), [1])


def test_its_own_requests_have_a_budget_of_their_own(proposals_of: Make) -> None:
    proposals = proposals_of(calls=2)
    asked(proposals, [1, 2])
    with pytest.raises(SearchOver, match="the optimizer's own requests: budget of 2 model calls used up"):
        asked(proposals, [3])
    assert (proposals.spent.trials, proposals.spent.calls) == (0, 2)
    assert proposals.spent.tokens > 0
