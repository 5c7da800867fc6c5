"""An optimizer's own requests: counted, bounded, and the same again from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopbench.experiments.journal import RunError
from loopbench.experiments.optimization.background import Background
from loopbench.experiments.optimization.candidates import Spent
from loopbench.experiments.optimization.proposals import Proposals
from loopbench.experiments.optimization.rollouts import BudgetSpent
from loopbench.models.metering import Budget, Meter
from loopbench.models.proposer import ScriptedProposer
from loopbench.protocol import Message, Model, ProviderError, Reply, Request, WrappedModel, run_sync

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

        def make(model: Model | None = None, told: Callable[[Spent], None] = lambda spent: None, **budget: int) -> Proposals:
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
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


class Refusing(WrappedModel):
    """Answers nothing."""

    async def complete(self, request: Request) -> Reply:
        raise ProviderError("nobody asks")


def test_what_is_in_the_log_is_not_asked(proposals_of: Make) -> None:
    first = asked(proposals_of(), [1, 1, 2])
    again = proposals_of(Refusing(ScriptedProposer(0)))
    assert asked(again, [1, 1, 2]) == first
    with pytest.raises(ProviderError):
        asked(again, [1])


def test_its_own_requests_have_a_budget_of_their_own(proposals_of: Make) -> None:
    told: list[Spent] = []
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
    with pytest.raises(RunError, match=r"proposals\.jsonl:1: no proposal: KeyError"):
        proposals_of()
