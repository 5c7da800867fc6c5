"""The importer of tau2's tasks: tools over a database of the trial's own, actions as plans, and each part of the reward basis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.suite import task_problems
from whichloop.datasets import tau2
from whichloop.datasets.task import Environment, Suite, Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.protocol import Observation, Toolbox, ToolCall, run_sync

PUBLISHED = Path(__file__).parents[2] / "../shared/data/tau2_mock"

DB: dict[str, Any] = {
    "tasks": {"task_1": {"task_id": "task_1", "title": "Water the ferns", "description": "All of them", "status": "pending"}},
    "users": {"ada": {"user_id": "ada", "name": "Ada", "tasks": ["task_1"]}, "bob": {"user_id": "bob", "name": "Bob", "tasks": []}},
}
CREATE: dict[str, Any] = {"action_id": "a1", "name": "create_task", "arguments": {"user_id": "bob", "title": "Sweep"}}
FINISH = {"action_id": "a2", "name": "update_task_status", "arguments": {"task_id": "task_2", "status": "completed"}}
LOOK = {"action_id": "a3", "name": "get_users", "arguments": {}}
LOOK_AGAIN = {"action_id": "a5", "name": "transfer_to_human_agents", "arguments": {"summary": "x"}}
TRANSFER = {"action_id": "a4", "name": "transfer_to_human_agents", "arguments": {"summary": "Bob is stuck."}, "compare_args": []}


def assertion(name: str, /, holds: bool = True, side: str = "assistant", **arguments: Any) -> dict[str, Any]:
    return {"env_type": side, "func_name": name, "arguments": arguments, "assert_value": holds}


def row(
    identifier: str = "sweep", *actions: Any, basis: list[str] | None = None, state: Any = None, **criteria: Any
) -> dict[str, Any]:
    judged = ({"actions": list(actions)} if actions else {}) | criteria | ({} if basis is None else {"reward_basis": basis})
    said = {"ticket": "Bob wants to sweep, and has done so.", "user_scenario": {"any": "thing"}}
    return {"id": identifier, **said, "initial_state": state, "evaluation_criteria": judged}


def write(folder: Path, rows: Any, **files: Any) -> Path:
    """A domain's folder; `files`: other content, text as it is, None for no file."""
    contents = {"tasks.json": rows, "db.json": DB, "policy.md": "# Policy\n\nBe kind.\n"}
    for name, content in {**contents, **{name.replace("__", "."): content for name, content in files.items()}}.items():
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def only(folder: Path, given: dict[str, Any]) -> tuple[Suite, Task]:
    suite = tau2.load(data=write(folder, [given]))
    return suite, suite.tasks[0]


def make(environment: Environment, *calls: tuple[str, Mapping[str, Any]], validate: bool = True) -> tuple[Observation, ...]:
    return run_sync(Toolbox(environment.tools).call_all([ToolCall(*call) for call in calls], validate=validate))


def accuracy(suite: Suite, task: Task, *calls: tuple[str, Mapping[str, Any]], answer: Any = "Done.") -> float:
    """Of a loop that makes these calls and answers."""
    environment = suite.open(task)
    make(environment, *calls)
    return scores_of(Judgement(task, answer, "finished", environment.state()))["accuracy"]


def planned(task: Task) -> list[tuple[str, Mapping[str, Any]]]:
    assert task.plan is not None
    return [(call.tool, call.arguments) for call in task.plan.calls]


CREATING = st.builds(lambda user: ("create_task", {"user_id": user, "title": "x"}), st.sampled_from(["ada", "bob", "eve"]))
UPDATING = st.builds(
    lambda number, status: ("update_task_status", {"task_id": f"task_{number}", "status": status}),
    st.integers(1, 3),
    st.sampled_from(["pending", "completed", "x"]),
)
OTHERS = st.sampled_from([("get_users", {}), ("transfer_to_human_agents", {"summary": "s"})])
CALLS = st.lists(CREATING | UPDATING | OTHERS, max_size=6)


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> tuple[Suite, Task]:
    return only(tmp_path_factory.mktemp("domain"), row("t", CREATE))


@settings(deadline=None, max_examples=cases(12))
@given(calls=CALLS, validate=st.booleans())
def test_the_tools_keep_the_database_in_order(creating: tuple[Suite, Task], calls: Any, validate: bool) -> None:
    suite, task = creating
    touched, untouched = suite.open(task), suite.open(task)
    seen = make(touched, *calls, validate=validate)
    db = touched.state()["db"]
    created = [item for item, (name, _) in zip(seen, calls, strict=True) if item.ok and name == "create_task"]
    assert list(db["tasks"]) == [f"task_{number + 1}" for number in range(1 + len(created))]
    assert [item.value["task_id"] for item in created] == list(db["tasks"])[1:]
    assert sorted(key for user in db["users"].values() for key in user["tasks"]) == sorted(db["tasks"])
    assert {item["status"] for item in db["tasks"].values()} <= {"pending", "completed"}
    assert all(item.ok for item, (name, _) in zip(seen, calls, strict=True) if name in ("get_users", "transfer_to_human_agents"))
    again = make(suite.open(task), *calls, validate=validate)
    assert [(item.status, item.data) for item in again] == [(item.status, item.data) for item in seen]
    for value in (*(item.value for item in seen), touched.state()["db"]["users"]):  # no door into the database
        if isinstance(value, dict | list):
            value.clear()
    assert touched.state()["db"] == db
    assert untouched.state()["db"] == DB


def test_a_row_becomes_a_task(tmp_path: Path) -> None:
    suite, task = only(tmp_path, row("sweep", CREATE, FINISH))
    assert (task.id, task.labels) == ("sweep", {"basis": "DB"})
    assert task.query.text == f"Bob wants to sweep, and has done so.\n\n{tau2.INSTRUCTION}"
    assert task.query.context == "# Policy\n\nBe kind."
    assert planned(task) == [(CREATE["name"], CREATE["arguments"]), (FINISH["name"], FINISH["arguments"])]
    swept = {"task_id": "task_2", "title": "Sweep", "description": None, "status": "completed"}
    assert task.end_state["db"]["tasks"]["task_2"] == swept
    assert task_problems(suite) == []
    assert accuracy(suite, task, *planned(task)) == 1.0
    assert accuracy(suite, task, *planned(task), answer=None) == 0.0
    assert accuracy(suite, task, ("get_users", {}), *planned(task), ("transfer_to_human_agents", {"summary": "x"})) == 1.0
    assert accuracy(suite, task, planned(task)[0]) == 0.0
    assert accuracy(suite, task, planned(task)[0], *planned(task)) == 0.0
    assert suite.distractors == {"get_users", "transfer_to_human_agents"}


@pytest.mark.parametrize(
    ("actions", "after", "fails"),
    [((LOOK, CREATE, FINISH, LOOK_AGAIN), [(), ("c1",), ("c2",), ("c3",)], []), ((FINISH, CREATE), [(), ("c1",)], ["c1"])],
)
def test_changes_come_in_order_and_reads_after_the_last_change(tmp_path: Path, actions: Any, after: Any, fails: Any) -> None:
    suite, task = only(tmp_path, row("t", *actions))
    assert task.plan is not None
    assert [call.after for call in task.plan.calls] == after
    assert [call.id for call in task.plan.calls if call.fails] == fails
    assert task_problems(suite) == []


def test_initial_data_and_actions_make_the_database(tmp_path: Path) -> None:
    data = {"agent_data": {"users": {"bob": {"name": "Robert"}, "eve": {"user_id": "eve", "name": "Eve", "tasks": []}}}}
    first = {"env_type": "assistant", "func_name": "create_task", "arguments": {"user_id": "eve", "title": "Rest"}}
    suite, task = only(tmp_path, row("t", FINISH, state={"initialization_data": data, "initialization_actions": [first]}))
    db = suite.open(task).state()["db"]
    assert db["users"]["bob"] == {"user_id": "bob", "name": "Robert", "tasks": []}
    assert db["tasks"]["task_2"]["title"] == "Rest"
    assert db["users"]["eve"]["tasks"] == ["task_2"]
    assert (db["users"]["ada"], db["tasks"]["task_1"]) == (DB["users"]["ada"], DB["tasks"]["task_1"])
    assert task_problems(suite) == []
    assert accuracy(suite, task, *planned(task)) == 1.0


COMPLETED = assertion("assert_task_status", task_id="task_2", expected_status="completed")
NOT_THREE = assertion("assert_number_of_tasks", user_id="bob", expected_number=3, holds=False)
FULL = CREATE | {"arguments": CREATE["arguments"] | {"description": "All"}}
ASSERTED = row("t", CREATE, FINISH, env_assertions=[COMPLETED, NOT_THREE], basis=["ENV_ASSERTION"])
COMPARED = row("t", CREATE | {"compare_args": ["user_id"]}, TRANSFER, basis=["ACTION"])
WHOLE = row("t", FULL, basis=["ACTION"])
SAID = row("t", CREATE, communicate_info=["task_2", "1,500 steps"])
DONE = ("update_task_status", {"task_id": "task_2", "status": "completed"})
TOLD = ("transfer_to_human_agents", {"summary": "in other words"})


def created(**changed: Any) -> tuple[str, dict[str, Any]]:
    return "create_task", {"user_id": "bob", "title": "Sweep", **changed}


@pytest.mark.parametrize(
    ("given", "calls", "answer", "right"),
    [
        (ASSERTED, [created(), DONE], "Done.", 1),
        (ASSERTED, [created(), DONE, created(), created()], "Done.", 0),
        (COMPARED, [created(title="Other"), TOLD], "Done.", 1),
        (COMPARED, [created(user_id="ada"), TOLD], "Done.", 0),
        (WHOLE, [created(description="All")], "Done.", 1),
        (WHOLE, [created()], "Done.", 1),  # all that a call gives is compared, as in tau2
        (SAID, [created()], "Made TASK_2 with 1500 steps.", 1),
        (row("t", CREATE, communicate_info=["task_2"], basis=["DB"]), [created()], "Made it.", 1),
    ],
)
def test_all_that_the_reward_basis_names_is_judged(tmp_path: Path, given: Any, calls: Any, answer: str, right: float) -> None:
    suite, task = only(tmp_path, given)
    assert accuracy(suite, task, *calls, answer=answer) == right
    assert accuracy(suite, task, *planned(task), answer=" ".join(["Done.", *task.expected])) == 1.0
    assert task_problems(suite) == []


HISTORY = {"message_history": [{"role": "user", "content": "Hello."}]}
NOTE = assertion("add_notification", side="user", notification_id="n")
TWO = assertion("assert_number_of_tasks", user_id="bob", expected_number=2)
LOST = {"initialization_actions": [assertion("update_task_status", task_id="task_7", status="pending")]}
OF_USER = "it needs a simulated user with tools and data of its own"
JUDGE = "its criteria leave nothing to score without a judge"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (row("t", CREATE, state=HISTORY), "it continues a conversation with a user (message_history)"),
        (row("t", CREATE, state={"initialization_actions": [NOTE]}), f"{OF_USER} (add_notification)"),
        (row("t", CREATE, basis=["NL_ASSERTION"], nl_assertions=["It is nice."]), JUDGE),
        (row("t", CREATE, env_assertions=[TWO], basis=["ENV_ASSERTION"]), "its own actions do not lead to assert_number_of"),
        (row("t", CREATE, state=LOST), "initialization_actions: update_task_status(task_id='task_7', status='pending') fails"),
    ],
)
def test_what_cannot_be_run_is_quarantined_with_the_reason(tmp_path: Path, given: Any, reason: str) -> None:
    suite, task = only(tmp_path, given)
    assert task.quarantined.startswith(reason)
    assert (task.plan, task.no_plan) == (None, task.quarantined)
    assert len(suite.digest) == 64


def test_splits_and_limit(tmp_path: Path) -> None:
    rows = [row(name, CREATE) for name in ("a", "b", "c")]
    folder = write(tmp_path, rows, split_tasks__json={"base": ["c", "a"], "test": ["c"], "empty": []})
    for data in (folder, folder / "tasks.json"):
        assert [task.id for task in tau2.load(data=data).tasks] == ["a", "b", "c"]
    assert [task.labels.get("split") for task in tau2.load(data=folder).tasks] == [None, None, "test"]
    assert [task.id for task in tau2.load(data=folder, split="base").tasks] == ["a", "c"]
    assert [task.id for task in tau2.load(data=folder, split="base", limit=1).tasks] == ["a"]
    with pytest.raises(ValueError, match=r"split is 'dev'; split_tasks.json has 'base', 'test', 'empty'"):
        tau2.load(data=folder, split="dev")
    with pytest.raises(ValueError, match="no task of split 'empty'"):
        tau2.load(data=folder, split="empty")
    with pytest.raises(ValueError, match="--data FOLDER"):
        tau2.SUITE()


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published folder is not here")
def test_the_published_tasks() -> None:
    suite = tau2.load(data=PUBLISHED)
    assert task_problems(suite) == []
    assert {task.id for task in suite.tasks if task.plan} == {
        *("create_task_1", "create_task_1_with_env_assertions", "update_task_1", "update_task_with_initialization_data"),
        *("update_task_with_initialization_actions", "impossible_task_1"),
    }
    assert all(task.quarantined for task in suite.tasks if not task.plan)
    assert all(accuracy(suite, task) == 0.0 for task in suite.tasks if task.plan)
    assert "You should transfer" in suite.tasks[0].query.context
    assert "compliment" not in suite.tasks[0].query.context  # the solo policy
