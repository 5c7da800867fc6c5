"""A user whom a real model plays: told the script, counted apart from the agent, recorded and replayed as the agent is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.tau2_shops import EXCHANGE, SHOP, action, loaded, row
from tests.models.real.provider import SECRET, CannedAnswer, SeenRequest, Server, completion, failure, serving
from whichloop.datasets.task import Suite
from whichloop.datasets.with_user import UserEnvironment, instructions
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.loops.bare_codecs import CODEC
from whichloop.metrics.record import Record, records_digest
from whichloop.models.fake import FakeAnswer, FakeItem, FakeModel
from whichloop.models.metering import Waits
from whichloop.protocol import Act, Answer, ToolCall
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.schedule import Trial, make_arms
from whichloop.runs.store.trials import read_records
from whichloop.runs.trial.trial import TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

from .conftest import Ended

AGENT, USER = "openai/agent", "openai/user"
TASK = row("t", action("get_order_details", order_id="#2"), action("exchange_delivered_order_items", **EXCHANGE))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return loaded(tmp_path_factory.mktemp("shop"), SHOP, TASK)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


class Talk:
    """Plays both sides: the agent follows the task's plan, the user says yes to all changes but answers nothing else."""

    def __init__(self, suite: Suite) -> None:
        (task,) = suite.tasks
        assert task.plan is not None
        environment = suite.open(task)
        assert isinstance(environment, UserEnvironment)
        self.calls = [ToolCall(call.tool, call.arguments) for call in task.plan.calls]
        self.script = instructions(environment.script)

    def __call__(self, heard: SeenRequest) -> CannedAnswer:
        messages = heard.body["messages"]
        if messages[0]["content"] == self.script:
            assert heard.body["model"] == "user"
            return self.user(messages)
        seen = sum(message["role"] == "user" for message in messages) - 1
        move = Act("Next.", (self.calls[seen],)) if seen < len(self.calls) else Answer("All is done.", "Done.")
        return completion(CODEC.render(move).text)

    def user(self, messages: list[dict[str, Any]]) -> CannedAnswer:
        return completion("Yes." if "May I make this change" in messages[-1]["content"] else "The lamp, please.")


def prepared(tmp_path: Path, shop: Suite, server: Server | None, **changes: Any) -> Experiment:
    loaded(tmp_path, SHOP, TASK)
    values: dict[str, Any] = {"loops": ("bare",), "models": (AGENT,), "user": USER, "suite": "tau2", "data": tmp_path}
    values |= {"base_url": None if server is None else server.url, "mlflow": False, "runs": tmp_path / "runs"} | changes
    return prepare(CompareConfig(**values))


def ran(experiment: Experiment) -> list[Record]:
    compare.run(experiment, Unwatched())
    return list(read_records(experiment.folder))


def test_the_user_is_counted_apart_recorded_and_replayed(tmp_path: Path, shop: Suite, whichloop: Callable[..., Ended]) -> None:
    talk = Talk(shop)
    recording: dict[str, Any] = {"cassette": tmp_path / "cassette"}
    with serving(talk) as server:
        (record,) = ran(prepared(tmp_path, shop, server, cassette_mode="record", **recording))
        requests = len(server.seen)
    assert (record.status, record.accuracy) == ("scored", 1.0)
    assert record.user_counts == {"calls": 3, "input_tokens": 33, "output_tokens": 15}  # two questions and a change
    assert record.lm_calls == requests - 3 == len(talk.calls) + 1
    assert record.tokens == 16 * record.lm_calls
    assert record.user_tokens == 48
    replayed = prepared(tmp_path, shop, None, **recording)
    (again,) = ran(replayed)
    assert records_digest([again]) == records_digest([record])
    assert again.user_counts == record.user_counts
    (arm,) = whichloop("report", str(replayed.folder), "--json").json["arms"]
    assert (arm["user_calls"]["value"], arm["user_tokens"]["value"], arm["lm_calls"]["value"]) == (3, 48, record.lm_calls)
    assert "user calls" in whichloop("report", str(replayed.folder), "-v").out


def test_a_user_who_cannot_answer_is_not_the_agent_s_fault(tmp_path: Path, shop: Suite) -> None:
    talk = Talk(shop)
    talk.user = lambda messages: failure(400, "no such model")  # type: ignore[method-assign]
    with serving(talk) as server:
        (record,) = ran(prepared(tmp_path, shop, server))
    assert record.status == "errored"
    assert record.reason.startswith("user: provider: ")


def test_the_run_s_budget_holds_for_the_user_too_and_the_trial_s_does_not(tmp_path: Path, shop: Suite) -> None:
    with serving(Talk(shop)) as server:
        budget = {"trial_budget": {"calls": 6}}
        (record,) = ran(prepared(tmp_path, shop, server, **budget))
        assert (record.accuracy, record.lm_calls, record.user_counts["calls"]) == (1.0, 6, 3)
        experiment = prepared(tmp_path, shop, server, budget={"calls": 3})
        assert "budget of 3 model calls used up" in compare.run(experiment, Unwatched())
        assert read_records(experiment.folder) == []


class Priced(FakeModel):
    """A model whose price is known."""

    is_priced = True


def trial_with(shop: Suite, agent: FakeModel, user: FakeModel) -> Record:
    (arm,) = make_arms(config_from({"loops": ["bare"], "models": [AGENT]}, "test"), shop)
    setting = TrialContext(shop, TrialModels({AGENT: agent, USER: user}, user=USER))
    return asyncio.run(run_trial(Trial(arm, shop.tasks[0], 0, 0), setting)).record


def test_the_time_of_the_user_is_not_the_agent_s(shop: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    off_the_clock: list[str] = []
    """What is counted as lost at this moment."""
    heard: list[tuple[str, int]] = []

    class Watched(Waits):
        @contextlib.contextmanager
        def counted(self) -> Iterator[None]:
            off_the_clock.append("a wait")
            yield
            off_the_clock.pop()

    def noted(who: str, said: FakeAnswer) -> FakeItem:
        def item(request: Any) -> FakeAnswer:
            heard.append((who, len(off_the_clock)))
            return said

        return item

    monkeypatch.setattr("whichloop.runs.trial_models.waits", Watched)
    moves: list[FakeAnswer] = [*(Act("Next.", (call,)) for call in Talk(shop).calls), Answer("All is done.", "Done.")]
    agent = FakeModel(*(noted("agent", move) for move in moves))
    record = trial_with(shop, agent, FakeModel(then=noted("user", "Yes.")))
    assert (record.status, record.stop, record.accuracy) == ("scored", "finished", 1.0)
    assert {place for place in heard if place[0] == "agent"} == {("agent", 0)}
    assert [place for place in heard if place[0] == "user"] == [("user", 1)] * record.user_counts["calls"]


@pytest.mark.parametrize(("user", "dollars"), [(FakeModel(), None), (Priced(), 0.0)])
def test_a_user_whom_the_agent_never_asks_takes_nothing_which_is_known(shop: Suite, user: FakeModel, dollars: float | None) -> None:
    record = trial_with(shop, FakeModel(Answer("I ask nobody.", "Done.")), user)
    assert (record.user_counts, record.user_tokens) == ({"calls": 0, "input_tokens": 0, "output_tokens": 0}, 0)
    assert record.user_cost_usd == dollars


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["-s", "user=openai/x"],
            "user is for runs whose models are all real; where the model is scripted, it is the scripted",
        ),
        (["-s", "user=scripted", "--model", AGENT], "leave it out for the scripted user"),
        (["-s", "user=openai/x", "--model", AGENT], "user openai/x: the tasks of suite arithmetic have no user; those of tau2's"),
    ],
)
def test_what_a_user_does_not_fit_is_refused_in_a_line(whichloop: Callable[..., Ended], words: list[str], why: str) -> None:
    done = whichloop("compare", *words)
    assert done.code == 2
    assert why in done.err
    assert done.err.count("\n") == 1
    assert not Path("runs").exists()
