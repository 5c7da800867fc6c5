"""How a word problem comes about: its numbers are drawn, and its steps planned and made, as its wording has them.

In `wording.toml` `draws` has `name = what` for each draw: a range, one of several texts, or one of a list of the file. Several
names, and `2 of …`, stand for different items. A step is `name = tool(arguments): what it finds`; the last one is the answer.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from whichloop.protocol import Ref

from .. import calculator
from ..generating import Draw
from ..story import Story, Wording
from ..task import StatelessEnvironment

ENVIRONMENT = StatelessEnvironment(calculator.TOOLS)
_ARGUMENTS = {"convert_units": ("value", "from_unit", "to_unit"), "percent_of": ("percent", "number")}
_DRAW = re.compile(r"([\w, ]+) = (?:(\d) of )?(?:(\d+)-(\d+)(?: by (\d+))?|([^;]+))(?:; )?")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
_STOPS = ("Mill Lane", "Harbour Gate", "Old Market", "Castle Hill", "North Pier", "Garden Road")


class ProblemStory(Story):
    """A word problem: what is told and asked, and the plan."""

    wording = Wording(__file__)

    def __init__(self, name: str, random: Random) -> None:
        """Draw the problem of this name."""
        super().__init__(Draw())
        own, self.name, self.names = self.wording.texts[name], name, dict[str, Any]()
        for names, count, low, high, step, texts in _DRAW.findall(own["draws"]):
            items = self.wording.find(texts) or [int(text) if text.isdecimal() else text for text in texts.split("|")]
            choices, keys = range(int(low), int(high) + 1, int(step or 1)) if low else items, names.split(", ")
            drawn = random.sample(choices, int(count or len(keys))) if count or keys[1:] else [random.choice(choices)]
            self.names |= {names: drawn} if count else zip(keys, drawn, strict=True)
        self.names |= _FURTHER[name](random, **self.names) if name in _FURTHER else {}
        self.sentences = [self.wording.vformat(text, (self, name), self.names) for text in own.get("sentences", ())]
        answer = _PLANNED[name](self, random) if name in _PLANNED else self.follow(self.names)
        self.answer = None if name in self.wording.texts["unanswerable"] else answer
        self.question = self.say("question", self.names)

    def settle(self) -> None:
        self.begin(ENVIRONMENT)

    def step(self, what: str, values: list[Any], goal: str) -> Ref:
        """Plan the call that finds `goal`; a division by zero is planned to fail."""
        fails = what == "divide" and self.seen(values[1]) == 0
        return self.call(f"Find {goal}.", what, dict(zip(_ARGUMENTS.get(what, ("a", "b")), values, strict=True)), fails=fails)

    def tell(self, key: str, **names: Any) -> None:
        self.names |= names
        self.sentences.append(self.say(key, self.names))

    @property
    def repeats(self) -> bool:
        """Whether two calls are the same once results stand in the place of references."""
        made = [(call.tool, self.seen(call.arguments)) for call in self.calls]
        return any(call in made[:index] for index, call in enumerate(made))


def _parcels(draw: Random, vans: int, crates: int, **_: Any) -> dict[str, Any]:
    """In every second draw no crate is free, and the question says what then."""
    free = draw.choice((0, draw.randint(2, 6)))
    broken = draw.randint(3, crates - free - 3)
    return {"broken": broken, "lent": crates - free - broken, "parcels": vans * (free or 1) * draw.randint(4, 9)}


_FURTHER: Mapping[str, Callable[..., dict[str, Any]]] = {
    "bakery": lambda draw, trays, each, bag, **_: {"burnt": trays * each % bag + bag * draw.randint(1, 2)},
    "novel": lambda draw, volumes, pages, **_: {"daily": draw.choice([n for n in range(23, 48) if volumes * pages % n])},
    "hike": lambda draw, pace, first, second, **_: {  # hundreds of metres
        "climb": -(first + second) * 100 % pace + pace * draw.randint(4, 18),
        "lake": calculator.divide(first, 10),
        "village": calculator.divide(second, 10),
    },
    "factory": lambda draw, hours, every, machines, box, **_: {
        "faulty": hours * 60 // every * machines % box + box * draw.randint(1, 4)
    },
    "orchards": lambda draw, **_: {"sizes": [(draw.randint(4, 20), draw.randint(6, 25), draw.randint(12, 45)) for _ in range(2)]},
    "fair": lambda draw, guests, prices, clubs, **_: {
        "rent": sum(map(operator.mul, guests, prices)) % clubs + clubs * draw.randint(5, 15)
    },
    "tank": lambda draw, can, fast, slow, long, short, **_: {"lost": (fast * short + slow * long) % can + can * draw.randint(2, 8)},
    "offers": lambda draw, sizes, cents, count, **_: {
        "packs": [calculator.divide(size * cent, 100) for size, cent in zip(sizes, cents, strict=True)],
        "purse": -(-count * min(cents) // 100) + draw.randint(3, 40),
    },
    "parcels": _parcels,
    "party": lambda draw, children, **_: {"early": (early := draw.randint(3, children - 3)), "late": children - early},
    "frame": lambda draw, long, wide, edge, **_: {"outer_long": long + 2 * edge, "outer_wide": wide + 2 * edge},
    "box_volume": lambda draw, long, wide, deep, **_: {
        "rate": draw.choice([n for n in range(2, 60) if long * wide * deep % n == 0]),
        "pause": draw.randint(5, 25),
        "cents": draw.randint(3, 9),
    },
    "meeting": lambda draw, fast, slow, hours, **_: {
        "fast": max(fast, slow),
        "slow": min(fast, slow),
        "apart": (fast + slow) * hours,
    },
    "chase": lambda draw, slow, faster, hours, **_: {"lead": faster * hours, "pace": slow + faster},
    "night_share": lambda draw, guests, each, **_: {"bill": guests * each},
    "leftover_ribbon": lambda draw, metres, piece, **_: {"cost": draw.randint(11, 34) * (metres * 100 // piece)},
    "mean_of_three": lambda draw, x, y, **_: {
        "z": draw.choice([n for n in range(20, 90) if (x + y + n) % 3 == 0 and n not in (x, y)])
    },
    "missing_mark": lambda draw, tests, mean, **_: {
        "earlier_points": draw.randint((tests - 1) * (mean - 9), (tests - 1) * mean),
        "extra": draw.randint(3, 9),
    },
    "reversed_price": lambda draw, dollars_left, count, price, snack, **_: {"purse": dollars_left + count * price + snack},
    "unequal_shares": lambda draw, each, gap, **_: {"total": 2 * each + gap},
    "machine_pair": lambda draw, fast, slow, minutes, **_: {"ordered": (fast + slow) * minutes},
}
"""Numbers that depend on a problem's draws, mostly so that what is asked for is a whole number."""


def _savings(s: ProblemStory, draw: Random) -> Any:
    box: Any = s.names["amount"]
    s.tell("start")
    for month in _MONTHS[: draw.randint(4, 8)]:
        some, event, amount = draw.randint(5, 60), draw.choice(("in", "in", "out", "double", "halve")), s.seen(box)
        if event == "halve" and amount % 2 == 0 and amount > 40:
            tool, by = "divide", 2
        elif event == "double" and amount < 200:
            tool, by = "multiply", 2
        elif event == "out" and amount > some:
            tool, by = "subtract", some
        else:
            event, tool, by = "in", "add", some
        s.tell(event, month=month, some=some)
        box = s.step(tool, [box, by], f"the dollars in the box at the end of {month}")
    return box


def _bus(s: ProblemStory, draw: Random) -> Any:
    now: Any = s.names["aboard"]
    stops = draw.sample(_STOPS, draw.randint(2, 4))
    s.tell("start")
    for stop in stops:
        off, on = draw.randint(2, min(20, s.seen(now) - 2)), draw.randint(2, 25)
        s.tell("stop", stop=stop, off=off, on=on)
        stayed = s.step("subtract", [now, off], f"the number of passengers who stay aboard at {stop}")
        now = s.step("add", [stayed, on], f"the number of passengers after {stop}")
    return now


def _parcels_carried(s: ProblemStory, draw: Random) -> Any:
    load = s.follow(s.names)
    if s.calls[-1].fails:
        load = s.step("divide", [s.names["parcels"], s.names["vans"]], "the number of parcels in each van")
    return s.step("multiply", [load, s.names["kilos"]], "the weight of one load in kilograms")


_PLANNED: Mapping[str, Callable[[ProblemStory, Random], Any]] = {"savings": _savings, "bus": _bus, "parcels": _parcels_carried}
"""Problems with steps that depend on their numbers; all others follow their `steps`."""
