"""A scripted user who asks of their own accord, and one whom a model plays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.tau2_shops import SHOP, action, loaded, make, row
from whichloop.checks.suite import task_problems
from whichloop.datasets import tau2
from whichloop.datasets.task import HasUser, Suite, Toolset, WorldEnvironment
from whichloop.datasets.tau2.customer import in_turn
from whichloop.datasets.with_user import (
    NOTHING_MORE,
    NOTHING_TO_SAY,
    STILL_WAITING,
    FurtherRequest,
    ProposedCall,
    ScriptedTalk,
    ScriptedUser,
    UserEnvironment,
    instructions,
    user_tools,
    with_user,
)
from whichloop.metrics.record import Record, records_digest
from whichloop.models.fake import FakeModel
from whichloop.protocol import run_sync
from whichloop.runs.config import config_from
from whichloop.runs.schedule import Trial, make_arms
from whichloop.runs.trial.trial import TrialContext, run_trial

PAINT, SELL = ProposedCall("paint", {"what": "boat"}), ProposedCall("sell", {"what": "boat"})
PATIENT = ScriptedUser(
    {"wishes": "I want it painted."}, [PAINT, SELL], [FurtherRequest("Now sell it.", after=[PAINT]), FurtherRequest("Is it gone?")]
)


def paint(world: list[str], what: str) -> str:
    """Paint a thing."""
    if what == "boat" and "oar painted" not in world:
        raise ValueError("the oar comes first")
    world.append(f"{what} painted")
    return "ok"


async def sell(world: list[str], what: str) -> str:
    """Sell a thing."""
    if "boat painted" not in world:
        raise ValueError("nobody wants it")
    world.append(f"{what} sold")
    return "ok"


def harbour(script: ScriptedUser = PATIENT) -> UserEnvironment:
    world: list[str] = []
    tools: Toolset[list[str]] = Toolset(paint, sell)
    return with_user(WorldEnvironment(tools.bound_to(world), world, list), script, user_tools({"wishes": "what"}, asks=True))


def tell(done: int, message: str = "Done.") -> tuple[str, dict[str, Any]]:
    return "tell_user", {"message": message, "requests_done": done}


def test_a_user_asks_the_next_thing_once_the_first_is_done() -> None:
    place = harbour()
    said = make(place, tell(1), ("paint", {"what": "boat"}), tell(1), ("paint", {"what": "oar"}), tell(1))
    assert said == [STILL_WAITING, "the oar comes first", STILL_WAITING, "ok", STILL_WAITING]
    said = make(place, ("paint", {"what": "boat"}), tell(1), tell(1), tell(2), tell(2), tell(3), tell(1), tell(3))
    assert said == ["ok", *["Now sell it."] * 2, *["Is it gone?"] * 2, NOTHING_MORE, "Now sell it.", NOTHING_MORE]
    assert place.state() == ["oar painted", "boat painted"]


CHANGES = st.builds(ProposedCall, st.sampled_from(["paint", "sell"]), st.fixed_dictionaries({"what": st.sampled_from("ab")}))


@st.composite
def scripts(draw: st.DrawFn) -> ScriptedUser:
    wanted = draw(st.lists(CHANGES, max_size=3))
    waits = st.lists(st.sampled_from(wanted), max_size=2) if wanted else st.just([])
    further = draw(st.lists(st.builds(FurtherRequest, st.text("xyz", min_size=1), waits), max_size=4))
    return ScriptedUser(draw(st.dictionaries(st.sampled_from("pqr"), st.text(max_size=5))), wanted, further)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.integers(-1, 6)),
        st.tuples(st.just("made"), CHANGES),
        st.tuples(st.just("ask"), st.text("pqrs", max_size=1)),
        st.tuples(st.just("agree"), CHANGES),
    ),
    max_size=12,
)


def played(script: ScriptedUser, events: Sequence[tuple[str, Any]], words: str) -> list[Any]:
    """What a user says to each event; `words`: what an agent says."""
    talk, said = ScriptedTalk(script), list[Any]()
    for kind, what in events:
        match kind:
            case "made":
                talk.notices(what)
            case "tell":
                said.append(talk.hears(words, what))
            case "agree":
                said.append(talk.agrees(what))
            case "ask":
                said.append(talk.answer(what, words))
    return said


@given(scripts(), EVENTS, st.text(max_size=4))
def test_a_user_says_only_what_they_know_whatever_the_wording(script: ScriptedUser, events: Any, words: str) -> None:
    known = {*script.says.values(), *(one.says for one in script.further), NOTHING_TO_SAY, NOTHING_MORE, STILL_WAITING, True, False}
    assert known >= set(played(script, events, "?"))
    assert played(script, events, words) == played(script, events, "?")


@given(scripts(), EVENTS)
def test_requests_come_in_order_and_each_after_what_it_waits_for(script: ScriptedUser, events: list[tuple[str, Any]]) -> None:
    talk, made, raised = ScriptedTalk(script), list[ProposedCall](), 0
    for kind, what in events:
        if kind == "made":
            talk.notices(what)
            made.append(what)
        elif kind == "tell":
            said, again = talk.hears("", what), talk.hears("", what) if what <= raised else None
            assert again in (None, said)  # a reply that was lost can be had again
            place = min(max(what, 1) - 1, raised)
            if place == len(script.further):
                assert said == NOTHING_MORE
            elif all(any(one.allows(done) for done in made) for one in script.further[place].after):
                assert said == script.further[place].says
                raised = max(raised, place + 1)
            else:
                assert said == STILL_WAITING


def further_row(reason: str, *actions: Any) -> dict[str, Any]:
    made = row("t", *actions)
    made["user_scenario"]["instructions"] |= {"reason_for_call": reason, "task_instructions": "You are calm. Finally, you say bye."}
    return made


def asking(folder: Path, *rows: Any) -> Suite:
    loaded(folder, SHOP, *rows)
    return tau2.load(data=folder, wishes="in_turn")


CANCEL = action("cancel_pending_order", order_id="#1", reason="no longer needed")
LOOK = action("get_order_details", order_id="#2")
THIRD = action("cancel_pending_order", order_id="#3", reason="no longer needed")


def test_a_customer_who_asks_in_turn_begins_with_the_first_request(tmp_path: Path) -> None:
    (task,) = asking(tmp_path, further_row("You cancel order 1. Also, you cancel order 3.", CANCEL, LOOK, THIRD)).tasks
    assert task.query.text.startswith("I cancel order 1.\n\n")
    assert "order 3" not in task.query.text
    assert task.world["says"]["wishes"] == "I cancel order 1.\nI am calm."
    assert task.world["further"] == ["Also, I cancel order 3.", "Finally, I say bye."]
    assert task.plan is not None
    assert [call.id for call in task.plan.calls] == [
        *("ask_identity", "ask_wishes", "yes1", "c1", "tell1", "c2", "yes3", "c3", "tell2", "tell3")
    ]
    assert task.plan.dependencies["tell1"] == {"c1"}
    assert task.plan.dependencies["yes3"] == {"tell1", "c2"}
    assert task_problems(asking(tmp_path, further_row("A.", CANCEL))) == []


@given(st.lists(st.sampled_from(["You want it.", "Also, a pen!", "then go", "Is it so?", "", "And finally, no."])))
def test_to_ask_in_turn_loses_no_word_and_keeps_the_order(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert " ".join(in_turn(text)).split() == text.split()
    assert all(part.split()[0] in ("Also,", "then", "And") for part in in_turn(text)[1:])


def test_a_model_that_plays_the_user_is_told_the_script_and_hears_the_talk() -> None:
    actor = FakeModel("Paint it, please.", "Yes, do.", "no way", "Sell it now.")
    place = harbour().played_by(actor)
    assert isinstance(place, HasUser)
    assert [tool.name for tool in place.tools] == [tool.name for tool in harbour().tools]
    seen = make(
        place,
        ("ask_user", {"about": "wishes", "question": "What do you want?"}),
        ("confirm_with_user", {"action": "paint", "arguments": {"what": "boat"}}),
        ("confirm_with_user", {"action": "sell", "arguments": {"what": "oar"}}),
        tell(1, "It is red now."),
    )
    assert seen == ["Paint it, please.", True, False, "Sell it now."]
    last = actor.requests[-1].messages
    assert last[0].content == instructions(PATIENT)
    assert [message.role for message in last] == ["system", *["user", "assistant"] * 3, "user"]
    assert (last[1].content, last[2].content, last[-1].content) == (
        "About wishes: What do you want?",
        "Paint it, please.",
        "It is red now.",
    )


def test_trials_with_a_user_are_the_same_one_by_one_and_all_at_once(tmp_path: Path) -> None:
    suite = asking(tmp_path, *({**further_row("A. Also, B.", CANCEL, LOOK, THIRD), "id": str(n)} for n in range(4)))
    arms = make_arms(config_from({"loops": ["finish", "bare"], "profiles": ["flaky-tools"]}, "test"), suite)
    trials = [Trial(arm, task, 0, 3) for arm in arms for task in suite.tasks]

    async def all_at_once() -> list[Record]:
        setting = TrialContext(suite)
        return [done.record for done in await asyncio.gather(*(run_trial(trial, setting) for trial in trials))]

    one_by_one = [run_sync(run_trial(trial, TrialContext(suite))).record for trial in trials]
    together = run_sync(all_at_once())
    assert records_digest(one_by_one) == records_digest(together)
    assert {record.status for record in together} == {"scored"}
    assert sum(record.accuracy for record in together) > 4
