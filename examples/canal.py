"""A suite of one template: `whichloop check suite canal:load --run-tools`, in this folder."""

from whichloop.datasets.generating import Draft
from whichloop.datasets.story import Story, told_suite
from whichloop.datasets.task import Environment, Task, Toolset


def leaves(world: dict[str, int], lock: str, minute: int) -> int:
    """Minute at which a barge leaves a lock that it enters at a minute."""
    return minute + world[lock]


LOCKS = ["Alder", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Maple", "Oak", "Pine", "Rowan", "Willow", "Yew"]
TOOLS: Toolset[dict[str, int]] = Toolset(leaves)


def open_canal(task: Task) -> Environment:
    return TOOLS.over(dict(task.world))


def passage(s: Story) -> Draft:
    locks = s.sample(LOCKS, 2)
    world = {lock: s.integer(11, 99) for lock in locks}
    start = s.integer(100, 999)
    s.begin(TOOLS.over(world), world)
    between = s.call(f"Find out when the barge leaves {locks[0]}.", "leaves", {"lock": locks[0], "minute": start})
    out = s.call(f"Find out when it leaves {locks[1]}.", "leaves", {"lock": locks[1], "minute": between})
    question = f"A barge enters lock {locks[0]} at minute {start} and goes on through lock {locks[1]}. At which minute is it out?"
    return s.draft(question, out)


SOURCE = told_suite("canal", "1", Story, ([passage], ()), open_canal, snapshots=None)
SUITE = load = SOURCE.suite
