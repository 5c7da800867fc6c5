"""The checks on suites: each finds what it is there to find, in a small shop that is sound until a test breaks it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.checks.suite import CHECKS, Checked, SuiteFinding, check_suite, quick_problems, sampled, task_problems
from loopbench.datasets import arithmetic
from loopbench.datasets.task import Environment, Suite, Task
from loopbench.datasets.worlds import Toolset, WorldEnvironment
from loopbench.protocol import Plan, PlannedCall, Query, Ref, Tool
from loopbench.runs.registry import generated_suites

# --- a suite that is sound: a shop with prices and orders ---

CUSTOMERS = ("Amina", "Bruno", "Chiara", "Dmitri", "Esi", "Farid", "Greta", "Hana")
ITEMS = ("lamps", "chairs", "kettles", "ropes", "globes", "mirrors", "drums", "ladders", "clocks", "vases", "tents", "sleds")
REASONS = ("for a new office", "as a present", "since the old ones broke", "before the long journey", "to sell them on")
WISHES = (
    "Order {count} {item} for {who} {why} and tell us the sum.",
    "{who} needs {count} {item} {why}: place the order; what is due?",
)


class World:
    """What one trial changes."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices
        self.orders: list[dict[str, Any]] = []
        self.hint = ""


def price(world: World, item: str) -> dict[str, int]:
    """Price of one piece, in dollars."""
    if item not in world.prices:
        raise LookupError(f"no item {item!r}")
    return {"price": world.prices[item]}


def order(world: World, item: str, count: int, unit_price: int) -> dict[str, int]:
    """Place an order at the current price of a piece."""
    if world.prices.get(item) != unit_price:
        raise ValueError(f"{unit_price} is not the price of {item}")
    world.orders.append({"item": item, "count": count})
    return {"number": len(world.orders), "due": count * unit_price}


def orders(world: World) -> list[dict[str, Any]]:
    """All orders that were placed."""
    return world.orders


TOOLS: Toolset[World] = Toolset(price, order, orders)


def open_shop(task: Task) -> Environment:
    world = World(dict(task.world["prices"]))
    return WorldEnvironment(TOOLS.over(world), world, lambda state: {"orders": state.orders})


def task(number: int) -> Task:
    """Task 0 to 23; no two have the same answer."""
    item, who = ITEMS[number % len(ITEMS)], CUSTOMERS[number % len(CUSTOMERS)]
    count, each = 3 + number, 11 + 7 * (number % 12)
    wish = WISHES[number % 2].format(count=count, item=item, who=who, why=REASONS[number % len(REASONS)])
    calls = (
        PlannedCall("c1", "price", {"item": item}, f"Find the price of the {item}."),
        PlannedCall("c2", "order", {"item": item, "count": count, "unit_price": Ref("c1", ("price",))}, "Place the order."),
    )
    return Task(
        f"shop-{number:02d}",
        Query(wish),
        count * each,
        "numeric",
        Plan(calls, Ref("c2", ("due",))),
        labels={"split": ("train", "dev", "test")[number % 3], "instance": f"shop/{number}"},
        world={"prices": {item: each, "boats": 990, "stamps": 1}},
        end_state={"orders": [{"item": item, "count": count}]},
    )


def shop(**changes: Any) -> Suite:
    """The suite; keywords replace its fields."""
    return replace(Suite("shop", "1", tuple(map(task, range(24))), open_shop, distractors=frozenset({"orders"})), **changes)


def changed(change: Callable[[Task], Task], *numbers: int) -> Suite:
    """The suite with some tasks changed; all where none is named."""
    made = [change(one) if not numbers or number in numbers else one for number, one in enumerate(shop().tasks)]
    return shop(tasks=tuple(made))


NAMES = [check.name for check in CHECKS]


def found(suite: Suite, name: str, **options: Any) -> SuiteFinding:
    """What one of all checks found."""
    return next(finding for finding in check_suite(suite, **options).findings if finding.check == name)


def not_ok(checked: Checked) -> dict[str, str]:
    return {finding.check: finding.status for finding in checked.findings if finding.status != "ok"}


def test_a_sound_suite_passes_every_check() -> None:
    heard: list[str] = []
    checked = check_suite(shop(), heard=lambda finding: heard.append(finding.check))
    assert not_ok(checked) == {}
    assert checked.ok
    assert heard == NAMES
    assert quick_problems(shop(), shop().tasks) == ()
    assert task_problems(shop()) == []
    shares = {passed.baseline.name: passed.share.value for passed in checked.baselines if passed.share}
    assert shares.pop("oracle") == 1.0
    assert max(shares.values()) <= 1 / 24


# --- suites that are broken in one way each ---


def plan_of(task: Task, **changes: Any) -> Task:
    """The task with its second call changed."""
    assert task.plan is not None
    first, second = task.plan.calls
    return replace(task, plan=Plan((first, replace(second, **changes)), task.plan.answer))


def arguments(**given: Any) -> Callable[[Task], Task]:
    def change(task: Task) -> Task:
        assert task.plan is not None
        return plan_of(task, arguments={**task.plan.calls[1].arguments, **given})

    return change


def unanswerable(task: Task) -> Task:
    assert task.plan is not None
    return replace(task, expected=None, plan=Plan(task.plan.calls, None))


def labelled(**labels: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, labels={**task.labels, **labels})


def asked(**changes: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, query=replace(task.query, **changes))


NO_CALL = Plan((), 33)

BROKEN_FILES: dict[str, tuple[Suite, str, str]] = {
    "a number that is none": (changed(labelled(weight=float("nan")), 2), "json", "task 'shop-02' is no JSON"),
    "a plan without calls": (
        changed(lambda task: replace(task, plan=NO_CALL, expected=33), 1),
        "plans",
        "answers without any call",
    ),
    "a plan and a reason for none": (changed(lambda task: replace(task, no_plan="why"), 1), "plans", "and not both"),
    "a goal that is asked": (
        changed(lambda task: plan_of(task, goal="Order 3 lamps"), 0),
        "goals",
        "'Order 3 lamps', stands in the question too",
    ),
    "a schema that is none": (changed(asked(schema={"type": "nonsense"}), 3), "schemas", "the answer's schema is none"),
    "an answer that its schema refuses": (
        changed(asked(schema={"type": "string"}), 3),
        "schemas",
        "does not take the expected answer",
    ),
    "a scorer that there is not": (changed(lambda task: replace(task, scorer="nmeric"), 3), "answers", "unknown scorer 'nmeric'"),
    "an answer that is wrong by its scorer": (
        changed(lambda task: replace(task, expected="many"), 3),
        "answers",
        "'many' is expected, and gets 0 from scorer numeric",
    ),
    "an answer that is empty": (
        changed(lambda task: replace(task, expected="", scorer="exact"), 3),
        "answers",
        "an empty answer counts as right",
    ),
    "too many tasks without answer": (changed(unanswerable, 1, 5, 9), "unanswerable", "3 of 24 tasks have no answer"),
    "an instance in two splits": (
        changed(labelled(instance="one")),
        "splits",
        "tasks 'shop-00' (train) and 'shop-01' (dev) share one instance 'one'",
    ),
    "a question in two splits": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again", labels={"split": "test"}))),
        "splits",
        "tasks 'shop-00' (train) and 'again' (test) share one question",
    ),
    "a task that stands twice": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again"))),
        "copies",
        "tasks 'shop-00' and 'again' ask the same of the same world, and want the same",
    ),
    "a task with two answers": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again", expected=1))),
        "copies",
        "want two different answers",
    ),
    "near copies across splits": (
        shop(
            tasks=(
                *shop().tasks,
                *(
                    replace(
                        task(number),
                        id=f"copy-{number}",
                        query=Query(task(number).query.text.replace("lamps", "LAMPS 2")),
                        labels={"split": "x"},
                    )
                    for number in range(3)
                ),
            )
        ),
        "near copies",
        "tasks are passed by the answer of a near copy in another split",
    ),
    "an argument that a tool does not know": (changed(arguments(colour="red"), 4), "arguments", "order: unknown argument 'colour'"),
    "an argument of another type": (
        changed(arguments(count="four"), 4),
        "arguments",
        "order: argument 'count': 'four' is not of type",
    ),
    "an argument that is missing": (
        changed(lambda task: plan_of(task, arguments={"item": "lamps", "unit_price": Ref("c1")}), 4),
        "arguments",
        "order: missing argument 'count'",
    ),
    "a tool that there is not": (
        changed(lambda task: plan_of(task, tool="pay"), 4),
        "arguments",
        "no tool 'pay'; there are price, ",
    ),
    "an alternative that does not fit": (
        changed(lambda task: plan_of(task, alternatives=(PlannedCall("c2", "price", {}, "Or so."),)), 4),
        "arguments",
        "price: missing argument 'item'",
    ),
    "a distractor that a plan needs": (
        shop(distractors=frozenset({"orders", "price"})),
        "tools",
        "'price' is named a distractor, and",
    ),
    "a distractor that is no tool": (shop(distractors=frozenset({"orders", "sing"})), "tools", "'sing' is not a tool of the suite"),
    "one answer for many tasks": (
        changed(lambda task: replace(task, expected=7, end_state=None), 0, 4, 8),
        "guessing",
        "same answer (always the suite's most frequent one) passes 12.5% of 24 tasks",
    ),
    "a question that ends in its answer": (
        changed(lambda task: replace(task, query=Query(f"{task.query.text} {task.expected}"), end_state=None), 0, 4, 8),
        "guessing",
        "echo (answers with the question) passes 12.5% of 24 tasks",
    ),
    "nothing to do": (
        changed(lambda task: replace(task, expected="", scorer="exact", end_state={"orders": []}), 0, 4, 8),
        "guessing",
        "do nothing (gives no answer) passes 12.5% of 24 tasks",
    ),
}


@pytest.mark.parametrize("broken", BROKEN_FILES)
def test_what_shows_without_calling_a_tool_is_found_with_and_without_them(broken: str) -> None:
    suite, name, text = BROKEN_FILES[broken]
    for run_tools in (True, False):
        finding = found(suite, name, run_tools=run_tools)
        assert finding.status == "failed"
        assert any(text in problem for problem in finding.problems), finding.problems
    quick = [line for line in quick_problems(suite, suite.tasks) if line.startswith(f"{name}: ")]
    assert len(quick) == 1, quick


def stocked(**functions: Callable[..., Any]) -> Suite:
    """The shop with other tools, each a function of the world."""
    tools: Toolset[World] = Toolset(*(functions.get(function.__name__, function) for function in (price, order, orders)))
    return shop(
        open=lambda task: WorldEnvironment(
            tools.over(world := World(task.world["prices"])), world, lambda it: {"orders": it.orders}
        )
    )


def forgetful_shop() -> Suite:
    """Orders of all trials land in one list."""
    book: list[dict[str, Any]] = []

    def open_again(task: Task) -> Environment:
        world = World(task.world["prices"])
        world.orders = book
        return WorldEnvironment(TOOLS.over(world), world, lambda it: {"orders": it.orders})

    return shop(open=open_again)


def counting_shop() -> Suite:
    """Numbers orders over all trials, and keeps their state apart."""
    count = iter(range(10_000))

    def order_numbered(world: World, item: str, count: int, unit_price: int) -> dict[str, int]:
        """Place an order."""
        return {**order(world, item, count, unit_price), "number": next(numbers)}

    numbers = count
    order_numbered.__name__ = "order"
    return stocked(order=order_numbered)


def told(what: Callable[[Task], str]) -> Suite:
    """A shop whose first tool tells of the task."""

    def open_telling(task: Task) -> Environment:
        environment = open_shop(task)
        first, *others = environment.tools
        return WorldEnvironment((replace(first, description=f"Price. {what(task)}"), *others), None, lambda _: environment.state())

    return shop(open=open_telling)


def price_and_more(world: World, item: str) -> dict[str, Any]:
    """Price of one piece."""
    return {**price(world, item), "hint": world.hint}


price_and_more.__name__ = "price"
TELLING: Toolset[World] = Toolset(price_and_more, order, orders)


def telling_results(task: Task) -> Environment:
    """Prices come with the answer."""
    world = World(dict(task.world["prices"]))
    world.hint = str(task.expected)
    return WorldEnvironment(TELLING.over(world), world, lambda it: {"orders": it.orders})


def picky(task: Task) -> Environment:
    """Opens by the label that says which task it is."""
    return open_shop(BY_INSTANCE[task.labels["instance"]])


BY_INSTANCE = {one.labels["instance"]: one for one in map(task, range(24))}


def unordered(task: Task) -> Task:
    """Looks at the orders, and nothing says that the order must have been placed before."""
    assert task.plan is not None
    look = PlannedCall("c3", "orders", {}, "Look at all orders.")
    return replace(task, plan=Plan((*task.plan.calls, look), task.plan.answer))


def ordered(task: Task) -> Task:
    changed = unordered(task)
    assert changed.plan is not None
    *first, look = changed.plan.calls
    return replace(changed, plan=Plan((*first, replace(look, after=("c2",))), changed.plan.answer))


def repeated(task: Task) -> Task:
    """Orders twice: once by the price that it found, once by the price itself, which is the same call."""
    assert task.plan is not None
    first, second = task.plan.calls
    again = replace(
        second,
        id="c3",
        goal="Order again.",
        arguments={**second.arguments, "unit_price": task.world["prices"][second.arguments["item"]]},
    )
    end_state = {"orders": 2 * task.end_state["orders"]}
    return replace(task, plan=Plan((first, second, again), task.plan.answer), end_state=end_state)


def free_lunch(world: World) -> int:
    """What is due for all orders that anyone will ever want."""
    return world.prices["secret"]


FREE: Toolset[World] = Toolset(free_lunch)


def gives_it_away(task: Task) -> Environment:
    return WorldEnvironment(FREE.over(world := World({"secret": task.expected})), world)


BROKEN_TOOLS: dict[str, tuple[Suite, str, str]] = {
    "a wrong answer": (
        changed(lambda task: replace(task, expected=task.expected + 1), 5),
        "replay",
        "task 'shop-05': the plan's answer is 368, expected is 369",
    ),
    "a wrong end state": (
        changed(lambda task: replace(task, end_state={"orders": []}), 5),
        "replay",
        """task 'shop-05': after the plan the state is {"orders":[{"count":8,"item":"mirrors"}]}, expected is {"orders":[]}""",
    ),
    "a call that fails": (
        changed(arguments(unit_price=1), 5),
        "replay",
        "task 'shop-05', call 'c2': ValueError: 1 is not the price of",
    ),
    "an environment that cannot be opened": (
        changed(lambda task: replace(task, world={}), 5),
        "replay",
        "task 'shop-05': KeyError",
    ),
    "the same call twice": (changed(repeated, 5), "receipts", "task 'shop-05': calls 'c2' and 'c3' have the same receipt"),
    "an order that is not said": (changed(unordered, 5), "order", "task 'shop-05', call 'c3'"),
    "a state that all trials share": (forgetful_shop(), "replay", "task 'shop-01': after the plan the state is"),
    "a number that all trials share": (counting_shop(), "state", "task 'shop-00', call 'c2'"),
    "the answer in a description": (
        told(lambda task: str(task.expected)),
        "gold",
        "the description of tool 'price' holds what a loop must",
    ),
    "the plan in a description": (
        told(lambda task: str(task.plan)),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "a label in a description": (
        told(lambda task: f"{task.labels}"),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "the scorer in a description": (
        told(lambda task: task.scorer),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "the answer in a result": (shop(open=telling_results), "gold", "the result of call 'c1' holds what a loop must not see"),
    "the answer in the middle of the question": (
        changed(lambda task: replace(task, query=Query(f"{task.query.text} It is {task.expected}, within 3 days.")), 0, 4, 8),
        "gold",
        "3 of 24 tasks show their answer, a number, in the question, context or",
    ),
    "the answer in a description, from the world": (
        replace(
            changed(lambda task: replace(task, world={**task.world, "due": task.expected})),
            open=told(lambda task: f"{task.world['due']:,}").open,
        ),
        "gold",
        "24 of 24 tasks show their answer, a number, in the question, context or",
    ),
    "an environment made of labels": (shop(open=picky), "gold", "it cannot be opened by its world alone (KeyError"),
    "calls at random": (
        shop(
            open=gives_it_away,
            distractors=frozenset(),
            tasks=tuple(
                replace(one, end_state=None, plan=Plan((PlannedCall("c1", "free_lunch", {}, "Ask."),), Ref("c1")))
                for one in shop().tasks
            ),
        ),
        "guessing",
        "random calls (answers with the last result) passes 100.0% of 24 tasks",
    ),
    "no call at all": (
        changed(lambda task: replace(task, plan=Plan((), task.expected), end_state=None), 0, 4, 8),
        "guessing",
        "blind (sees no result) passes 12.5% of 24 tasks",
    ),
}


@pytest.mark.parametrize("broken", BROKEN_TOOLS)
def test_what_shows_when_tools_are_called_is_found(broken: str) -> None:
    suite, name, text = BROKEN_TOOLS[broken]
    finding = found(suite, name)
    assert finding.status == "failed"
    assert any(text in problem for problem in finding.problems), finding.problems


OF_TASKS = {"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"}


@pytest.mark.parametrize("broken", [*BROKEN_FILES, *BROKEN_TOOLS])
def test_what_single_tasks_show_is_told_by_itself(broken: str) -> None:
    suite, name, text = (BROKEN_FILES | BROKEN_TOOLS)[broken]
    assert any(text in problem for problem in task_problems(suite)) == (name in OF_TASKS)


def test_of_what_single_tasks_show_twenty_problems_of_a_check_are_told() -> None:
    assert len(task_problems(changed(lambda task: replace(task, expected=task.expected + 1)))) == 20


def test_an_order_that_is_said_is_kept() -> None:
    assert found(changed(ordered), "order").status == "ok"


def test_a_state_that_one_trial_leaves_to_the_next_is_found_where_answers_alone_are_judged() -> None:
    shared = forgetful_shop()
    answers_only = replace(shared, tasks=tuple(replace(one, end_state=None) for one in shared.tasks))
    finding = found(answers_only, "state")
    assert finding.status == "failed"
    assert any("what a trial does shows in the state of one beside it" in problem for problem in finding.problems)


def test_results_that_are_others_each_time_are_a_matter_of_state_and_of_no_other_check() -> None:
    """A number that all trials share comes out another whoever asks and in whatever order."""
    numbered = counting_shop()
    assert found(numbered, "state").status == "failed"
    assert found(numbered, "gold").status == "ok"
    two = replace(numbered, tasks=tuple(map(with_two_orders, numbered.tasks)))
    assert found(two, "order").status == "ok"
    assert found(two, "state").status == "failed"


def with_two_orders(task: Task) -> Task:
    """Orders twice, in any order."""
    assert task.plan is not None
    first, second = task.plan.calls
    more = replace(second, id="c3", goal="Order more.", arguments={**second.arguments, "count": 99})
    return replace(task, plan=Plan((first, second, more), task.plan.answer), end_state=None)


# --- what is told, and fails nothing ---


@pytest.mark.parametrize(
    ("suite", "name", "text"),
    [
        (shop(distractors=frozenset()), "tools", "tool 'orders' is used by no plan"),
        (
            changed(lambda task: replace(task, quarantined="the price is unclear"), 3, 4),
            "set aside",
            "2 × quarantined: the price is unclear",
        ),
        (
            changed(
                lambda task: replace(
                    task,
                    expected=min(task.world["prices"]),
                    scorer="exact",
                    plan=None,
                    no_plan="a choice",
                    end_state=None,
                    query=Query(f"{task.query.text} Which comes first: {', '.join(task.world['prices'])}?"),
                ),
                0,
                4,
                8,
            ),
            "gold",
            "3 of 24 tasks show their answer, a text, in",
        ),
        (
            changed(lambda task: replace(task, plan=None, no_plan="nobody knows"), 3),
            "set aside",
            "1 × without a plan: nobody knows (shop-03)",
        ),
        (
            shop(
                tasks=tuple(
                    replace(task(number % 12), id=f"t{number}", query=Query(f"{number} lamps?"), expected=number)
                    for number in range(24)
                )
            ),
            "near copies",
            "24 tasks have 1 wordings",
        ),
        (
            shop(
                tasks=(
                    *(replace(task(number), labels={}) for number in range(24)),
                    *(
                        replace(task(number), id=f"t{number}", labels={}, query=Query(task(number).query.text + " 1"))
                        for number in range(3)
                    ),
                )
            ),
            "near copies",
            "in their own split",
        ),
    ],
)
def test_a_warning_fails_nothing(suite: Suite, name: str, text: str) -> None:
    finding = found(suite, name)
    assert finding.status == "warning"
    assert text in finding.problems[0]
    assert not any(line.startswith(name) for line in quick_problems(suite, suite.tasks))


def test_quarantined_tasks_are_in_no_other_check() -> None:
    bad = changed(lambda task: replace(task, quarantined="bad", expected="many", plan=NO_CALL, scorer="none", world={}), 3, 7)
    assert not_ok(check_suite(bad)) == {"set aside": "warning"}
    assert quick_problems(bad, bad.tasks) == ()
    assert task_problems(bad) == []
    none_left = changed(lambda task: replace(task, quarantined="bad"))
    assert set(not_ok(check_suite(none_left)).values()) == {"left out", "warning"}
    assert quick_problems(none_left, none_left.tasks) == ()
    assert task_problems(none_left) == []


def test_tasks_without_plan_leave_out_what_needs_one() -> None:
    bare = changed(lambda task: replace(task, plan=None, no_plan="nobody wrote one"))
    left_out = {"tools", "arguments", "replay", "receipts", "order", "state"}
    assert not_ok(check_suite(bare)) == {**dict.fromkeys(left_out, "left out"), "set aside": "warning"}
    assert quick_problems(bare, bare.tasks) == ()
    assert task_problems(bare) == []


# --- laws ---


@given(st.sets(st.integers(0, 23), min_size=1))
@settings(max_examples=5)
def test_replay_names_exactly_the_tasks_whose_answer_is_wrong(numbers: set[int]) -> None:
    finding = found(changed(lambda task: replace(task, expected=task.expected + 1), *numbers), "replay")
    assert finding.count == len(numbers)
    assert [problem.split("'")[1] for problem in finding.problems] == [f"shop-{number:02d}" for number in sorted(numbers)][:20]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 3))
def test_a_sample_keeps_order_and_is_the_same_for_one_seed(size: int, most: int, seed: int) -> None:
    tasks = tuple(replace(task(0), id=str(number)) for number in range(size))
    chosen = sampled(tasks, most, seed)
    assert len(chosen) == min(size, most)
    places = [int(one.id) for one in chosen]
    assert places == sorted(set(places))
    assert list(sampled(tasks, most, seed)) == list(chosen)


def watched(suite: Suite, called: list[str]) -> Suite:
    """The suite, whose calls are noted down by their tasks."""

    def open_watched(task: Task) -> Environment:
        environment = suite.open(task)

        def noting(tool: Tool) -> Tool:
            def noted(**given: Any) -> Any:
                called.append(task.id)
                return tool.function(**given)

            return replace(tool, function=noted)

        return WorldEnvironment(tuple(map(noting, environment.tools)), None, lambda _: environment.state())

    return replace(suite, open=open_watched)


def test_a_sample_is_called_and_no_other_task() -> None:
    called: list[str] = []
    checked = check_suite(watched(shop(), called), tasks=5, seed=3)
    assert checked.ok
    assert checked.sample == len(set(called)) == 5
    assert set(called) == {one.id for one in sampled(shop().tasks, 5, 3)}
    with pytest.raises(ValueError, match="tasks is 0, and must be at least 1"):
        check_suite(shop(), tasks=0)


def test_without_permission_no_tool_is_called() -> None:
    called: list[str] = []
    suite = watched(shop(), called)
    checked = check_suite(suite, run_tools=False)
    left_out = [finding for finding in checked.findings if finding.status == "left out"]
    assert [finding.check for finding in left_out] == ["replay", "receipts", "order", "state"]
    assert all("--run-tools" in finding.problems[0] for finding in left_out)
    assert {passed.baseline.name for passed in checked.baselines} == {"do nothing", "same answer", "not determined", "echo"}
    quick_problems(suite, suite.tasks)
    assert called == []


def test_a_suite_whose_code_breaks_is_a_finding() -> None:
    def broken(task: Task) -> Environment:
        raise RuntimeError("the database is down")

    suite = shop(open=broken)
    assert "the database is down" in found(suite, "arguments").problems[0]
    assert any("the database is down" in line for line in quick_problems(suite, suite.tasks))


def test_tools_known_by_their_schema_alone_are_checked_too() -> None:
    schema = {
        "type": "object",
        "properties": {"item": {"$ref": "#/$defs/item"}},
        "required": ["item"],
        "$defs": {"item": {"enum": ["lamps"]}},
    }
    tool = Tool("price", "Price.", schema, lambda **given: {"price": 1})
    suite = shop(open=lambda task: WorldEnvironment((tool,), None))
    finding = found(suite, "arguments")
    assert any("price: argument 'item': 'chairs' is not one of ['lamps']" in problem for problem in finding.problems)


def test_a_sample_blames_no_suite_for_what_chance_drew() -> None:
    """One task in twelve has no answer; in a sample more than one in ten may have none."""
    suite = arithmetic.load(1_000, 5)
    parts = [suite.tasks[:size] for size in range(210, 1_000, 7)]
    shares = [sum(one.expected is None for one in sampled(part, 200, 0)) / 200 for part in parts]
    unlucky = [part for part, share in zip(parts, shares, strict=True) if share > 0.1]
    assert unlucky
    assert [quick_problems(suite, part) for part in unlucky] == [()] * len(unlucky)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("name", ["agriculture", "tables", "repairs"])
def test_a_comparison_on_one_split_blames_no_suite_for_how_it_was_drawn(name: str, split: str) -> None:
    """One of twelve tasks has no answer; of a split's few tasks it may be one of six."""
    suite = suite_named(name)
    assert quick_problems(suite, [task for task in suite.tasks if task.labels["split"] == split]) == ()


# --- the built-in suites ---


def suite_named(name: str) -> Suite:
    suite: Suite = importlib.import_module(f"loopbench.datasets.{name}").load()
    return suite


@pytest.mark.parametrize("name", sorted(generated_suites()))
def test_a_built_in_suite_passes_on_a_sample(name: str) -> None:
    suite = suite_named(name)
    assert not_ok(check_suite(suite, tasks=16)) == {}
    assert quick_problems(suite, suite.tasks) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(generated_suites()))
def test_a_built_in_suite_passes(name: str) -> None:
    assert not_ok(check_suite(suite_named(name))) == {}
    assert not_ok(check_suite(importlib.import_module(f"loopbench.datasets.{name}").load(1_000, 1), tasks=200)) == {}
