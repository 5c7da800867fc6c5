"""A suite of one template: `whichloop check suite canal:load --run-tools`, in this folder."""

from functools import partial

from whichloop.datasets.generating import Draft, Source, generate
from whichloop.datasets.story import Story, told_by
from whichloop.datasets.task import Environment, Task, Toolset, WorldEnvironment


def leaves(world: dict[str, int], lock: str, minute: int) -> int:
    """Minute at which a barge leaves a lock that it enters at a minute."""
    return minute + world[lock]


LOCKS = ["Alder", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Maple", "Oak", "Pine", "Rowan", "Willow", "Yew"]
TOOLS: Toolset[dict[str, int]] = Toolset(leaves)


def environment(world: dict[str, int]) -> Environment:
    return WorldEnvironment(TOOLS.bound_to(world), None)


def open_canal(task: Task) -> Environment:
    return environment(dict(task.world))


@told_by(Story)
def passage(s: Story) -> Draft:
    locks = s.sample(LOCKS, 2)
    world = {lock: s.integer(11, 99) for lock in locks}
    start = s.integer(100, 999)
    s.begin(environment(dict(world)), world)
    between = s.call(f"Find out when the barge leaves {locks[0]}.", "leaves", {"lock": locks[0], "minute": start})
    out = s.call(f"Find out when it leaves {locks[1]}.", "leaves", {"lock": locks[1], "minute": between})
    question = f"A barge enters lock {locks[0]} at minute {start} and goes on through lock {locks[1]}. At which minute is it out?"
    return s.draft(question, out)


SOURCE = Source("canal", "1", partial(generate, "canal", templates=[passage]), open_canal)
SUITE = load = SOURCE.suite
