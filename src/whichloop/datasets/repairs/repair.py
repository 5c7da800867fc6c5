"""A repair: a drawn plant, the trouble that a story gives it, and the plan that gets round it.

Where an argument stands in an error's text alone, the plan holds it as a literal, after the call that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from whichloop.protocol import Ref

from ..generating import Draft, Draw, draw_new, part
from ..story import DeadEnd, Story, Wording
from ..task import Task, WorldEnvironment
from .plant import QUANTITIES, TOOLS, Plant, Quantity, draw_plant

Trouble = Literal["none", "drops once", "drops twice", "rate limit", "garbage", "out of range", "moved", "moved twice", "lost"]


def open_plant(task: Task) -> WorldEnvironment[Plant]:
    plant = draw_plant(task.world["plant"])
    plant.trouble = task.world["trouble"]
    return TOOLS.over(plant, Plant.state)


class Repair(Story):
    """A plant in working order, the trouble that a story gives it, and the plan that gets round it."""

    wording = Wording(__file__)

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        number, self.trouble = self.integer(1, 10**9), dict[str, dict[str, Any]]()
        self.plant = draw_plant(number)
        self.plant.trouble = self.trouble
        self.orders = [(asset, job) for _, asset, job in self.plant.work_orders]
        self._numbers_so_far: set[str] = set()
        self.begin(TOOLS.over(self.plant, Plant.state), {"plant": number, "trouble": self.trouble})

    def machine(self) -> tuple[str, dict[str, Any]]:
        """Draw a machine: its asset number, and what it is."""
        return self.sample(list(self.plant.machines.items()), 1)[0]

    def new_number(self, letter: str) -> str:
        """Draw a number that nothing in the plant has."""
        number = draw_new(self._numbers_so_far, lambda: f"{letter}{self.integer(10_000, 99_999)}")
        self._numbers_so_far.add(number)
        return number

    # Calls with their trouble.

    def find(self, asset: str, machine: Mapping[str, Any]) -> Ref:
        """Ask for the machine by name: the tool is retired, and says which number to look up instead."""
        failed = self.call(f"Find the {machine['name']}.", "find_machine", {"name": machine["name"]}, fails=True)
        return self.describe(asset, after=[failed])

    def describe(self, asset: str, after: Sequence[Ref] = (), drops: int = 0) -> Ref:
        if drops:
            self.trouble[f"describe_machine/{asset}"] = {"drops": drops}
        return self.call(f"Look up asset {asset}.", "describe_machine", {"asset": asset}, after=after)

    def read(self, asset: str, quantity: Quantity, described: Ref, trouble: Trouble) -> Ref:
        """Read one quantity of a machine, whatever it takes; return the value that counts."""
        sensor = self.plant.machines[asset]["sensors"][quantity]
        what, key = f"{quantity} of {asset}", f"read_sensor/{sensor}"
        ask: dict[str, Any] = {"sensor": part(described, "sensors", quantity)}
        if trouble.startswith("drops"):
            self.trouble[key] = {"drops": 1 if trouble == "drops once" else 2}
        elif trouble == "rate limit":
            ticket, permit = self.new_number("N"), self.new_number("L")
            self.trouble[key] = {"ticket": ticket, "permit": permit}
            failed = self.call(f"Try to read the {what}.", "read_sensor", ask, fails=True)
            turn = self.call(f"Wait for a turn at the {what}.", "wait_turn", {"ticket": ticket}, after=[failed])
            ask = ask | {"permit": part(turn, "permit")}
        elif trouble.startswith("moved"):
            for _ in range(2 if trouble == "moved twice" else 1):
                new = self.plant.spares[quantity].pop()
                self.trouble[f"read_sensor/{sensor}"] = {"moved_to": new}
                failed = self.call(f"Read the {what} at {sensor}.", "read_sensor", ask, fails=True)
                sensor, ask = new, {"sensor": new}
            return part(self.call(f"Read the {what} at its new place.", "read_sensor", ask, after=[failed]), "value")
        elif trouble in ("garbage", "out of range", "lost"):
            low, high = QUANTITIES[quantity][2]
            shows: tuple[Any, ...] = ("#####", "E-OVR", "\\x00\\x7f@@", "nan", None, "0x7FFF")
            if trouble == "out of range":
                shows = (high + self.integer(1, 400) / 10, low - self.integer(1, 400) / 10)
            self.trouble[key] = {"shows": self.choice(shows)}
            seen = self.call(f"Read the {what}.", "read_sensor", ask)
            if trouble == "lost":
                self.trouble[f"read_calibrated/{sensor}"] = {"lost": True}
            goal = f"Check the {what} by the calibrated instrument."
            return part(self.call(goal, "read_calibrated", ask, after=[seen], fails=trouble == "lost"), "value")
        return part(self.call(f"Read the {what} properly.", "read_sensor", ask), "value")

    def index(self, asset: str, described: Ref, troubles: Iterable[Trouble]) -> Ref:
        """Plan to read a machine's three sensors, which have these troubles, and to work out its load index."""
        both = zip(QUANTITIES, troubles, strict=True)
        readings = {str(quantity): self.read(asset, quantity, described, trouble) for quantity, trouble in both}
        return part(self.call(f"Work out the load of {asset}.", "load_index", {"asset": asset, **readings}), "load_index")

    def open_order(self, asset: str | Ref, machine: str, job: str, after: Sequence[Ref] = ()) -> Ref:
        """Write a work order; `machine` is the asset number. Return the order's number."""
        written = self.call(f"Have {machine} seen to.", "open_work_order", {"asset": asset, "job": job}, after=after)
        self._note_order(machine, job)
        return part(written, "work_order")

    def open_order_in_doubt(self, asset: str, job: str, is_kept: bool, after: Sequence[Ref] = ()) -> Ref:
        """Plan to write a work order and get no answer: look whether it is there, and send it again only if it is not."""
        reference, arguments = self.new_number("X"), {"asset": asset, "job": job}
        self.trouble[f"open_work_order/{asset}"] = {"reference": reference, "kept": is_kept}
        sent = self.call(f"Send the order for {asset}.", "open_work_order", arguments, after=after, fails=True)
        listed = self.call(f"See whether {asset} has the order.", "list_work_orders", {"asset": asset}, after=[sent])
        place = sum(owner == asset for owner, _ in self.orders)
        self._note_order(asset, job)
        if is_kept:
            return part(listed, place, "work_order")
        again = arguments | {"reference": reference}
        return part(self.call(f"Send the order for {asset} again.", "open_work_order", again, after=[listed]), "work_order")

    def _note_order(self, asset: str, job: str) -> None:
        """Note an order. Raises DeadEnd if the machine has such an order already: nobody could tell which one is new."""
        if (asset, job) in self.orders:
            raise DeadEnd
        self.orders.append((asset, job))

    def quote(self, what: str | Ref, number: str, quantity: int, after: Sequence[Ref] = (), fails: bool = False) -> Ref:
        goal = f"Ask what {number} {'would cost' if fails else 'costs'}."
        return self.call(goal, "order_part", {"part": what, "quantity": quantity}, after=after, fails=fails)

    def buy(
        self, what: str | Ref, number: str, quantity: int, stale: int = 0, named_by: Sequence[Ref] = (), after: Sequence[Ref] = ()
    ) -> Ref:
        """Plan to ask for a quote and confirm it or, if it has expired, the newer one.

        `number`: the part's. `named_by`: calls that name the part; `after`: purchases that come first.
        """
        ask = {"part": what, "quantity": quantity}
        if stale:
            self.trouble[f"order_part/{number}"] = {"stale": stale}
        quoted = self.quote(what, number, quantity, named_by)
        quote: Any = part(quoted, "quote")
        before = [*after, quoted]
        for place in range(stale):
            goal = f"Confirm quote {place + 1} for {number}."
            before = [self.call(goal, "order_part", ask | {"quote": quote}, after=before, fails=True)]
            quote = self.plant.parts[number]["quotes"][place + 1]
        return self.call(f"Buy {number}.", "order_part", ask | {"quote": quote}, after=before)

    def turn_page(self, goal: str, hall: str, cursor: str | Ref, after: Sequence[Ref] = (), fails: bool = False) -> Ref:
        return self.call(goal, "list_alarms", {"hall": hall, "cursor": cursor}, after=after, fails=fails)

    # What comes of it.

    def task(self, answer: Any, names: Mapping[str, Any]) -> Draft:
        """Return the task."""
        request, texts = self.told(names), self.wording.texts
        aside, who = self.choice(texts["aside"]), self.choice(texts["people"])
        machine = self.choice(list(self.plant.machines.values()))["name"]
        aside = aside.format(who=who, machine=machine, symptom=self.choice(texts["symptoms"])).format(n=self.integer(3, 29))
        return self.draft(f"{aside[0].upper()}{aside[1:]} {request} {texts['answer_format']}", answer)
