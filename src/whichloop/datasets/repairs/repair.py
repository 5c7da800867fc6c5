"""A repair: a drawn plant, the trouble that a story gives it, and the plan that gets round it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, draw_new, part
from whichloop.protocol import Ref

from .plant import QUANTITIES, Quantity, draw_plant

ANSWER_FORMAT = 'Answer with the number or the code alone. If it cannot be determined, the right answer is "not determined".'


RULES = (
    "What is no number, or lies outside of the sensor's range, is no reading: the calibrated instrument counts then.",
    "A sensor that shows nonsense, or more or less than it can, is overruled by its calibrated instrument.",
    "Only numbers within a sensor's own range count; failing that, go by the calibrated instrument.",
)


PEOPLE = (
    "Amina", "Bruno", "Clara", "the foreman", "the night shift", "Dmitri", "Elif", "the new fitter", "Farid", "Greta", "the porter",
    "Hanna", "Ivo", "the painter", "Jana", "Kofi", "a trainee", "Lucia", "Mateo", "the auditor", "Nadia", "Oskar",
    "the crew of gate {n}",
)  # fmt: skip


SYMPTOMS = (
    "hums louder than usual", "smells of hot oil", "stood still for {n} minutes", "has lost a bolt", "shook the whole floor",
    "tripped its fuse {n} times", "drips on the walkway", "blinks amber", "has a loose belt", "was painted only last week",
    "starts with a groan", "runs {n} percent slower than in spring", "rattles at every turn", "sparked once",
)  # fmt: skip


ASIDES = (
    "{who} has noticed that the {machine} {symptom}.",
    "According to {who}, the {machine} {symptom}.",
    "The log has a line by {who}: the {machine} {symptom}.",
    "Nobody believes it, but {who} claims that the {machine} {symptom}.",
    "On the board, in the hand of {who}: the {machine} {symptom}.",
)
"""Sentences that do not matter."""


Trouble = Literal["none", "drops once", "drops twice", "rate limit", "garbage", "out of range", "moved", "moved twice", "lost"]


class Repair:
    """A plant in working order, the trouble that a story gives it, and the plan that gets round it."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.number = draw.integer(1, 10**9)
        self.plant = draw_plant(self.number)
        self.plan = PlanWriter()
        self.trouble: dict[str, dict[str, Any]] = {}
        self.orders: list[list[Any]] = [list(order) for order in self.plant.work_orders]
        self.purchases: list[list[Any]] = []
        self._numbers_so_far: set[str] = set()

    def machines(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        return self.draw.sample(list(self.plant.machines.items()), count)

    def new_number(self, letter: str) -> str:
        """Draw a number that nothing in the plant has."""
        number = draw_new(self._numbers_so_far, lambda: f"{letter}{self.draw.integer(10_000, 99_999)}")
        self._numbers_so_far.add(number)
        return number

    # Calls with their trouble.

    def find(self, asset: str, machine: Mapping[str, Any]) -> Ref:
        """Ask for the machine by name: the tool is retired, and says which number to look up instead."""
        failed = self.plan.call(f"Find the {machine['name']}.", "find_machine", {"name": machine["name"]}, fails=True)
        return self.describe(asset, after=[failed])

    def describe(self, asset: str, after: Sequence[Ref] = (), drops: int = 0) -> Ref:
        if drops:
            self.trouble[f"describe_machine/{asset}"] = {"drops": drops}
        return self.plan.call(f"Look up asset {asset}.", "describe_machine", {"asset": asset}, after=after)

    def read(self, asset: str, quantity: Quantity, described: Ref, trouble: Trouble) -> Ref:
        """Read one quantity of a machine, whatever it takes; return the value that counts."""
        plan, sensor = self.plan, self.plant.machines[asset]["sensors"][quantity]
        what, key = f"{quantity} of {asset}", f"read_sensor/{sensor}"
        ask: dict[str, Any] = {"sensor": part(described, "sensors", quantity)}
        if trouble.startswith("drops"):
            self.trouble[key] = {"drops": 1 if trouble == "drops once" else 2}
        elif trouble == "rate limit":
            ticket, permit = self.new_number("N"), self.new_number("L")
            self.trouble[key] = {"ticket": ticket, "permit": permit}
            failed = plan.call(f"Try to read the {what}.", "read_sensor", ask, fails=True)
            turn = plan.call(f"Wait for a turn at the {what}.", "wait_turn", {"ticket": ticket}, after=[failed])
            ask = ask | {"permit": part(turn, "permit")}
        elif trouble.startswith("moved"):
            for _ in range(2 if trouble == "moved twice" else 1):
                new = self.plant.spares[quantity].pop()
                self.trouble[key] = {"moved_to": new}
                failed = plan.call(f"Read the {what} at {sensor}.", "read_sensor", ask, fails=True)
                self.plant.machines[asset]["sensors"][quantity] = sensor = new
                key, ask = f"read_sensor/{new}", {"sensor": new}
            return part(plan.call(f"Read the {what} at its new place.", "read_sensor", ask, after=[failed]), "value")
        elif trouble in ("garbage", "out of range", "lost"):
            self.trouble[key] = {"shows": self._nonsense(quantity, is_number=trouble == "out of range")}
            seen = plan.call(f"Read the {what}.", "read_sensor", ask)
            if trouble == "lost":
                self.trouble[f"read_calibrated/{sensor}"] = {"lost": True}
            goal = f"Check the {what} by the calibrated instrument."
            return part(plan.call(goal, "read_calibrated", ask, after=[seen], fails=trouble == "lost"), "value")
        return part(plan.call(f"Read the {what} properly.", "read_sensor", ask), "value")

    def _nonsense(self, quantity: Quantity, is_number: bool) -> Any:
        low, high = QUANTITIES[quantity][2]
        if is_number:
            return self.draw.choice((high + self.draw.integer(1, 400) / 10, low - self.draw.integer(1, 400) / 10))
        return self.draw.choice(("#####", "E-OVR", "\\x00\\x7f@@", "nan", None, "0x7FFF"))

    def index(self, asset: str, values: Sequence[Ref]) -> Ref:
        """Plan to work out the machine's load index from these readings."""
        arguments = {"asset": asset, **{str(quantity): value for quantity, value in zip(QUANTITIES, values, strict=True)}}
        return part(self.plan.call(f"Work out the load of {asset}.", "load_index", arguments), "load_index")

    def true_index(self, asset: str) -> float:
        """Work the load index out in tenths, from the plant itself."""
        machine, tenths = self.plant.machines[asset], 0
        for quantity, sensor in machine["sensors"].items():
            tenths += machine["weights"][quantity] * round(self.plant.sensors[sensor]["value"] * 10)
        return tenths / 10

    def open_order(self, asset: str | Ref, machine: str, job: str, after: Sequence[Ref] = ()) -> Ref:
        """Write a work order; `machine` is the asset number. Return the order's number."""
        arguments = {"asset": asset, "job": job}
        written = self.plan.call(f"Have {machine} seen to.", "open_work_order", arguments, after=after)
        self.note_order(machine, job)
        return part(written, "work_order")

    def open_order_in_doubt(self, asset: str, job: str, is_kept: bool, after: Sequence[Ref] = ()) -> Ref:
        """Plan to write a work order and get no answer: look whether it is there, and send it again only if it is not."""
        reference = self.new_number("X")
        self.trouble[f"open_work_order/{asset}"] = {"reference": reference, "kept": is_kept}
        arguments = {"asset": asset, "job": job}
        sent = self.plan.call(f"Send the order for {asset}.", "open_work_order", arguments, after=after, fails=True)
        listed = self.plan.call(f"See whether {asset} has the order.", "list_work_orders", {"asset": asset}, after=[sent])
        place = sum(owner == asset for _, owner, _ in self.orders)
        self.note_order(asset, job)
        if is_kept:
            return part(listed, place, "work_order")
        again = arguments | {"reference": reference}
        return part(self.plan.call(f"Send the order for {asset} again.", "open_work_order", again, after=[listed]), "work_order")

    def note_order(self, asset: str, job: str) -> None:
        """Note an order. Raises DeadEnd if the machine has such an order already: nobody could tell which one is new."""
        if [asset, job] in (order[1:] for order in self.orders):
            raise DeadEnd
        self.orders.append([f"W{self.plant.first_order + len(self.orders)}", asset, job])

    def buy(
        self, what: str | Ref, number: str, quantity: int, stale: int = 0, named_by: Sequence[Ref] = (), after: Sequence[Ref] = ()
    ) -> Ref:
        """Plan to ask for a quote and confirm it or, if it has expired, the newer one.

        `number`: the part's. `named_by`: calls that name the part; `after`: purchases that come first.
        """
        catalogue_entry, ask = self.plant.parts[number], {"part": what, "quantity": quantity}
        if stale:
            self.trouble[f"order_part/{number}"] = {"stale": stale}
        quoted = self.plan.call(f"Ask what {number} costs.", "order_part", ask, after=named_by)
        quote: Any = part(quoted, "quote")
        before = [*after, quoted]
        for place in range(stale):
            goal = f"Confirm quote {place + 1} for {number}."
            before = [self.plan.call(goal, "order_part", ask | {"quote": quote}, after=before, fails=True)]
            quote = catalogue_entry["quotes"][place + 1]
        bought = self.plan.call(f"Buy {number}.", "order_part", ask | {"quote": quote}, after=before)
        self.purchases.append([number, quantity, catalogue_entry["prices"][stale] * quantity])
        return bought

    # What comes of it.

    def draft(self, question: str, answer: Any, expected: Any, scorer: str = "numeric") -> Draft:
        """Return the task. `question`: what is asked, without the form of the answer."""
        draw, names = self.draw, [machine["name"] for machine in self.plant.machines.values()]
        aside = draw.choice(ASIDES).format(who=draw.choice(PEOPLE), machine=draw.choice(names), symptom=draw.choice(SYMPTOMS))
        aside = aside.format(n=draw.integer(3, 29))
        return Draft(
            question=f"{aside[0].upper()}{aside[1:]} {question} {ANSWER_FORMAT}",
            plan=self.plan.plan(answer),
            expected=expected,
            scorer=scorer,
            world={"plant": self.number, "trouble": self.trouble},
            end_state={"work_orders": sorted(self.orders), "purchases": sorted(self.purchases)},
        )
