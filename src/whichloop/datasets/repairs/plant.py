"""The plant: machines, sensors, alarms, parts and work orders, the trouble with them, and the tools over them.

Trouble is JSON under the name of tool and thing, `read_sensor/T1234`. Apart from links that drop a few times and from what was
written, a tool's answer depends on its arguments alone: no call can spoil another one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from whichloop.datasets.generating import Draw, distinct, draw_new
from whichloop.datasets.task import Toolset, look_up
from whichloop.protocol.tool_calls import TransientError

Job = Literal["inspect", "lubricate", "recalibrate", "replace"]
Quantity = Literal["temperature", "pressure", "vibration"]

QUANTITIES: Mapping[Quantity, tuple[str, str, tuple[int, int]]] = {
    "temperature": ("T", "C", (20, 120)),
    "pressure": ("P", "bar", (1, 40)),
    "vibration": ("V", "mm/s", (0, 25)),
}
"""Quantity → letter of its sensors, unit, and range."""
JOBS: tuple[Job, ...] = ("inspect", "lubricate", "recalibrate", "replace")
SIDES = ("north", "south", "east", "west", "upper", "lower", "old", "new", "red", "blue", "first", "second", "spare", "main")
KINDS = ("press", "mill", "pump", "lathe", "kiln", "mixer", "saw", "dryer", "crane", "chiller", "conveyor", "grinder")
HALLS = ("A", "B", "C")
SPARES = 3
ALARMS_A_PAGE = 3
PAGES = 3


class LinkDown(TransientError):
    """The line to a device was lost for a moment."""


class RateLimited(Exception):
    """A device is read too often; the message names a ticket."""


class SensorMoved(Exception):
    """A sensor has another number now; the message names it."""


class Retired(Exception):
    """A tool is no longer served; the message says what to use."""


class QuoteExpired(Exception):
    """A price no longer holds; the message names the new quote."""


class CursorExpired(Exception):
    """A list has changed since; the message says where it goes on."""


class OutcomeUnknown(Exception):
    """A write was sent, and the answer to it was lost."""


class Unavailable(Exception):
    """There is no such thing any more, and nothing in its place."""


class NotKnown(LookupError):
    """There is nothing of the number or name that was given."""


@dataclass(slots=True)
class Plant:
    """One trial's plant."""

    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Asset number → name, hall, sensors by quantity, part, and the weights of its load index by quantity."""
    sensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sensor number → value, quantity."""
    spares: dict[Quantity, list[str]] = field(default_factory=dict)
    """Sensors that belong to no machine yet."""
    alarms: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Hall → asset and code, newest first."""
    cursors: dict[str, list[str]] = field(default_factory=dict)
    """Hall → where the second page begins, the third, …"""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Part number → prices in dollars, and quotes, the later the newer."""
    work_orders: list[tuple[str, str, str]] = field(default_factory=list)
    """Number, asset and job of each open order."""
    first_order: int = 0
    budget: int = 0
    """Dollars for parts."""
    trouble: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    purchases: list[tuple[str, int, int]] = field(default_factory=list)
    """Part, quantity, dollars paid."""
    used: set[tuple[str, str]] = field(default_factory=set)
    """Part and quote of what was confirmed."""
    dropped: Counter[str] = field(default_factory=Counter)
    """How often each link has been down so far."""

    def next_order(self) -> str:
        return f"W{self.first_order + len(self.work_orders)}"

    def trouble_with(self, tool: str, thing: str) -> Mapping[str, Any]:
        """Return what is wrong there; empty if nothing is. Raises LinkDown as often as the link drops."""
        key = f"{tool}/{thing}"
        trouble = self.trouble.get(key, {})
        if self.dropped[key] < trouble.get("drops", 0):
            self.dropped[key] += 1
            raise LinkDown(f"Connection to {thing} lost. Try again.")
        return trouble

    def state(self) -> dict[str, Any]:
        """Return the work orders that are open, and what was bought."""
        return {"work_orders": sorted(map(list, self.work_orders)), "purchases": sorted(map(list, self.purchases))}


def draw_plant(number: int) -> Plant:
    """Draw a plant in working order; the same for the same number."""
    draw, plant = Draw("repairs/plant", number), Plant()
    plant.first_order, plant.budget = draw.integer(30_000, 80_000), draw.integer(40_000, 99_000)
    names = draw.sample([f"{side} {kind}" for side in SIDES for kind in KINDS], 7)
    for part_number in _numbers(draw, "B", 9):
        price = draw.integer(45, 900)
        prices = [price, price + draw.integer(3, 40), price + draw.integer(41, 90)]
        plant.parts[part_number] = {"prices": prices, "quotes": _numbers(draw, "Q", 3)}
    for index, (asset, name) in enumerate(zip(_numbers(draw, "A", len(names)), names, strict=True)):
        plant.machines[asset] = {
            "name": name,
            "hall": HALLS[index % len(HALLS)],
            "sensors": {quantity: _draw_sensor(draw, plant, quantity) for quantity in QUANTITIES},
            "part": list(plant.parts)[index],
            "weights": {quantity: draw.integer(2, 30) for quantity in QUANTITIES},
        }
    for quantity in QUANTITIES:
        plant.spares[quantity] = [_draw_sensor(draw, plant, quantity) for _ in range(SPARES)]
    for hall in HALLS:
        codes = _numbers(draw, "E", ALARMS_A_PAGE * PAGES)
        plant.alarms[hall] = [{"asset": draw.choice(list(plant.machines)), "code": code} for code in codes]
        plant.cursors[hall] = _numbers(draw, "K", PAGES - 1)
    for _ in range(4):
        plant.work_orders.append((plant.next_order(), draw.choice(list(plant.machines)), draw.choice(JOBS)))
    return plant


def _draw_sensor(draw: Draw, plant: Plant, quantity: Quantity) -> str:
    """Draw a new sensor, and return its number; its value has one decimal and lies well within the range."""
    letter, _, (low, high) = QUANTITIES[quantity]
    number = draw_new(plant.sensors, lambda: f"{letter}{draw.integer(1_000, 9_999)}")
    plant.sensors[number] = {"value": draw.integer(low * 10 + 5, high * 10 - 5) / 10, "quantity": quantity}
    return number


def _numbers(draw: Draw, letter: str, count: int) -> list[str]:
    return distinct(count, lambda: f"{letter}{draw.integer(1_000, 9_999)}")


# Tools

Asset = Annotated[str, Field(description="Asset number of a machine, such as A1234.")]
Sensor = Annotated[str, Field(description="Number of a sensor, such as T1234.")]
Amount = Annotated[int, Field(ge=1, le=100, description="How many pieces.")]
Hall = Literal["A", "B", "C"]
_MACHINE = "machine with asset number"


def _known(things: Mapping[str, Any], name: str, what: str) -> Any:
    return look_up(things, name, f"There is no {what} {name}.", NotKnown)


def find_machine(plant: Plant, name: str) -> dict[str, Any]:
    """Find a machine by its name, such as "north press"."""
    asset = next((asset for asset, machine in plant.machines.items() if machine["name"] == name.strip().lower()), None)
    if asset is None:
        raise NotKnown(f"There is no machine named {name!r}.")
    raise Retired(f"find_machine is retired. Use describe_machine: the {name.strip().lower()} has asset number {asset}.")


def describe_machine(plant: Plant, asset: Asset) -> dict[str, Any]:
    """Describe a machine: its name and hall, its sensors by quantity, and the number of its spare part."""
    machine = _known(plant.machines, asset, _MACHINE)
    plant.trouble_with("describe_machine", asset)
    return {"asset": asset, **{name: machine[name] for name in ("name", "hall", "sensors", "part")}}


def read_sensor(
    plant: Plant, sensor: Sensor, permit: Annotated[str, Field(description="Only where a rate limit asks for one.")] = ""
) -> dict[str, Any]:
    """Read a sensor now. The result states the range in which its values can lie."""
    facts = _known(plant.sensors, sensor, "sensor")
    trouble = plant.trouble_with("read_sensor", sensor)
    if "moved_to" in trouble:
        raise SensorMoved(f"{sensor} was taken out. Its place has sensor {trouble['moved_to']} now.")
    if "ticket" in trouble and permit != trouble["permit"]:
        raise RateLimited(
            f"{sensor} is read too often. Wait your turn with ticket {trouble['ticket']}, then read under the permit."
        )
    _, unit, (low, high) = QUANTITIES[facts["quantity"]]
    return {"sensor": sensor, "value": trouble.get("shows", facts["value"]), "unit": unit, "low": low, "high": high}


def read_calibrated(plant: Plant, sensor: Sensor) -> dict[str, Any]:
    """Read the calibrated instrument beside a sensor: slow and costly, for when the sensor itself cannot be trusted."""
    facts = _known(plant.sensors, sensor, "sensor")
    if plant.trouble_with("read_calibrated", sensor).get("lost"):
        raise Unavailable(f"Beside {sensor} there is no calibrated instrument any more.")
    return {"sensor": sensor, "value": facts["value"], "unit": QUANTITIES[facts["quantity"]][1]}


def wait_turn(plant: Plant, ticket: Annotated[str, Field(description="The ticket that a rate limit named.")]) -> dict[str, Any]:
    """Wait until a ticket's turn has come; gives the permit to read with."""
    permits = {trouble["ticket"]: trouble["permit"] for trouble in plant.trouble.values() if "ticket" in trouble}
    return {"ticket": ticket, "permit": _known(permits, ticket, "ticket")}


def load_index(plant: Plant, asset: Asset, temperature: float, pressure: float, vibration: float) -> dict[str, Any]:
    """Work out a machine's load index from its three readings."""
    weights, readings = _known(plant.machines, asset, _MACHINE)["weights"], (temperature, pressure, vibration)
    total = sum(weight * reading for weight, reading in zip(weights.values(), readings, strict=True))
    return {"asset": asset, "load_index": round(total, 1)}


def list_alarms(
    plant: Plant, hall: Hall, cursor: Annotated[str, Field(description="Where to go on; empty for the first page.")] = ""
) -> dict[str, Any]:
    """List a hall's alarms, newest first, three on a page. `next` is the cursor of the next page, none on the last."""
    cursors, trouble = plant.cursors[hall], plant.trouble_with("list_alarms", cursor or hall)
    if trouble.get("lost"):
        raise Unavailable(f"Cursor {cursor} has expired, and the rest of the list was discarded.")
    if "goes_on" in trouble:
        raise CursorExpired(f"Cursor {cursor} has expired: the list has changed. It goes on at {trouble['goes_on']}.")
    renewed = {found["goes_on"]: key.rpartition("/")[2] for key, found in plant.trouble.items() if "goes_on" in found}
    page = 0 if not cursor else next((place for place, key in enumerate(cursors, 1) if key == renewed.get(cursor, cursor)), PAGES)
    if page == PAGES:
        raise NotKnown(f"The alarms of hall {hall} have no cursor {cursor}.")
    start = page * ALARMS_A_PAGE
    following = cursors[page] if page < len(cursors) else None
    return {"alarms": plant.alarms[hall][start : start + ALARMS_A_PAGE], "next": following}


def list_work_orders(plant: Plant, asset: Asset) -> list[dict[str, Any]]:
    """List the open work orders of a machine, oldest first."""
    _known(plant.machines, asset, _MACHINE)
    return [{"work_order": number, "job": job} for number, owner, job in plant.work_orders if owner == asset]


def open_work_order(
    plant: Plant, asset: Asset, job: Job, reference: Annotated[str, Field(description="Only when an order is sent again.")] = ""
) -> dict[str, Any]:
    """Open a work order. Each call that gets through opens one more."""
    _known(plant.machines, asset, _MACHINE)
    trouble, number = plant.trouble_with("open_work_order", asset), plant.next_order()
    is_cut_off = "reference" in trouble and reference != trouble["reference"]
    if not is_cut_off or trouble["kept"]:
        plant.work_orders.append((number, asset, job))
    if is_cut_off:
        again = trouble["reference"]
        raise OutcomeUnknown(
            f"Line cut while sending: the order for {asset} may exist or not. If not, resend it with reference {again}."
        )
    return {"work_order": number, "asset": asset, "job": job}


def order_part(
    plant: Plant,
    part: str,
    quantity: Amount,
    quote: Annotated[str, Field(description="Quote to buy under; empty asks for one.")] = "",
) -> dict[str, Any]:
    """Ask for a quote of a spare part, or buy under a quote: then it is paid from the budget. Dollars."""
    part_facts = _known(plant.parts, part, "part")
    trouble = plant.trouble_with("order_part", part)
    if trouble.get("withdrawn"):
        raise Unavailable(f"Part {part} is no longer made, and nothing replaces it.")
    if "successor" in trouble:
        raise Retired(f"Part {part} is no longer made. Order {trouble['successor']} in its place.")
    quotes, totals = part_facts["quotes"], [price * quantity for price in part_facts["prices"]]
    if not quote:
        return {"part": part, "quantity": quantity, "quote": quotes[0], "total": totals[0]}
    if quote not in quotes:
        raise NotKnown(f"There is no quote {quote} for part {part}.")
    index = quotes.index(quote)
    if index < trouble.get("stale", 0):
        raise QuoteExpired(f"Quote {quote} has expired. It is {totals[index + 1]} dollars now, under quote {quotes[index + 1]}.")
    if (part, quote) in plant.used:
        raise NotKnown(f"Quote {quote} has been used already.")
    plant.used.add((part, quote))
    plant.purchases.append((part, quantity, totals[index]))
    budget_left = plant.budget - sum(paid for _, _, paid in plant.purchases)
    return {"part": part, "quantity": quantity, "paid": totals[index], "budget_left": budget_left}


TOOLS: Toolset[Plant] = Toolset(
    find_machine, describe_machine, read_sensor, read_calibrated, wait_turn, load_index,
    list_alarms, list_work_orders, open_work_order, order_part,
    writes=(open_work_order, order_part),
)  # fmt: skip
