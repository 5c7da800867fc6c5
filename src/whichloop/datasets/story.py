"""The one kit that the suites are written with: a story draws, plans calls, and makes each of them in the suite's world at once.

So a task's answer and its end state come from the world, and nobody works them out a second time. What is said stands in the
suite's `wording.toml`: a text, or a list of texts of which one is drawn. In a text `{name}` is a value of the story or another text
of the file, `{name:w}` a number in words, `{name:W}` with a capital, `{name:,}` and `{name:&}` a list, `[3-9]` a drawn number.
"""

from __future__ import annotations

import functools
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from whichloop.protocol import Plan, PlannedCall, Ref, resolve
from whichloop.protocol.tool_calls import TransientError

from .generating import MAX_DRAWS, SNAPSHOTS, Draft, Draw, Source, Template, generate
from .task import Environment, Task

MAX_TRIES = 5
"""How often a call is made whose link drops."""
_AMOUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_STEP = re.compile(r"(\w+) = (\w+)\((.*?)\): (.*)")
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")


class DeadEnd(Exception):
    """This draw makes no good task; the next one may."""


class Wording(string.Formatter):
    """The texts of a suite."""

    def __init__(self, module: str) -> None:
        """`module`: the file of the suite's package."""
        self._file = Path(module).with_name("wording.toml")

    @functools.cached_property
    def texts(self) -> Mapping[str, Any]:
        return tomllib.loads(self._file.read_text(encoding="utf-8"))

    def find(self, key: str) -> Any:
        """Return the text, or texts, under a key such as `cheapest.wish`; None if there are none."""
        found: Any = self.texts
        for part_of_key in key.split("."):
            found = found.get(part_of_key) if isinstance(found, Mapping) else None
        return found

    def say(self, draw: Draw, name: str, key: str, names: Mapping[str, Any]) -> str:
        """Draw one of a template's own texts under a key, else of the suite's. Texts within it are drawn in their order."""
        own = self.find(f"{name}.{key}")
        texts = self.find(key) if own is None else own
        if not isinstance(texts, str):
            texts = draw.choice([_RANGE.sub(lambda at: str(draw.integer(int(at[1]), int(at[2]))), text) for text in texts])
        return self.vformat(texts, (draw, name), names)

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if field_name in kwargs or (self.find(f"{args[1]}.{field_name}") is None and self.find(field_name) is None):
            return super().get_field(field_name, args, kwargs)
        draw, name = args
        return self.say(draw, name, field_name, kwargs), field_name

    def check_unused_args(self, used_args: object, args: object, kwargs: object) -> None:
        """Names that a text does not use are no mistake."""

    def format_field(self, value: Any, format_spec: str) -> str:
        match format_spec:
            case "w":
                return _AMOUNTS[value]
            case "W":
                return (_AMOUNTS[value] if isinstance(value, int) else str(value)).capitalize()
            case ",":
                return ", ".join(map(str, value))
            case "&":
                return f"{', '.join(value[:-1])} and {value[-1]}"
        return str(super().format_field(value, format_spec))


class Story(Draw):
    """A task being told: it draws, writes the plan, and makes each call in the suite's world as it is planned."""

    wording: ClassVar[Wording]
    name: str = ""
    """The template's name: where its own texts stand."""

    def __init__(self, draw: Draw) -> None:
        self._random = draw._random
        self.restart()

    def restart(self) -> None:
        """Begin the plan anew, in a new world."""
        self.calls: list[PlannedCall] = []
        self._results: dict[str, Any] = {}
        self._run = 0
        self.world: Mapping[str, Any] = {}
        self.environment: Any = None  # an Environment, once there is one

    def settle(self) -> None:
        """Open the world, when a result is first needed: what a story puts into it stands by then."""
        raise NotImplementedError

    def begin(self, environment: Environment, world: Mapping[str, Any] | None = None) -> None:
        """Open the world in which the calls are made. `world`: it as JSON."""
        self.environment, self.world = environment, world or {}
        self._functions = {tool.name: tool.function for tool in environment.tools}

    def call(self, goal: str, tool: str, arguments: Mapping[str, Any], *, after: Iterable[Ref] = (), fails: bool = False) -> Ref:
        """Plan a call, and return the reference to its result, whose parts are `part(ref, key, …)`.

        `goal`: a sentence that stands neither in the question nor in another goal. `arguments`: literals and references.
        `after`: calls whose effect this one needs, though none of their results. `fails`: it ends in an error.
        """
        ref = Ref(f"c{len(self.calls) + 1}")
        before = tuple(dict.fromkeys(needed.call for needed in after))
        self.calls.append(PlannedCall(ref.call, tool, dict(arguments), goal, fails=fails, after=before))
        return ref

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of all calls planned so far: those that were not made yet are made now."""
        for planned in self.calls[self._run :]:
            self._run += 1
            try:
                self._results[planned.id] = self.made(planned.tool, resolve(planned.arguments, self._results))
            except Exception:
                if not planned.fails:
                    raise
        return self._results

    def made(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Make a call."""
        if self.environment is None:
            self.settle()
        for _ in range(MAX_TRIES):
            try:
                return self._functions[tool](**arguments)
            except TransientError:
                continue
        raise TimeoutError(tool)

    def seen(self, value: Any) -> Any:
        """Return what a reference, or a structure of references, stands for in this world."""
        return resolve(value, self.results)

    def say(self, key: str, names: Mapping[str, Any]) -> str:
        """Draw one of the template's texts, else of the suite's, under a key."""
        return self.wording.say(self, self.name, key, names)

    def told(self, names: Mapping[str, Any]) -> str:
        """Return the question: the template's wish is drawn first, then what else `question` names, in order."""
        wished = {**names, "wish": self.say("wish", names)} if self.wording.find(f"{self.name}.wish") else names
        return self.say("question", wished)

    def follow(self, names: Mapping[str, Any]) -> Any:
        """Plan the template's `steps`, each `name = what(values): goal`. Return what the last one gives."""
        found, last = dict(names), None
        for text in self.wording.find(f"{self.name}.steps") or ():
            name, what, values, goal = re.fullmatch(_STEP, text).groups()  # type: ignore[union-attr]  # ours
            given = [self.value(value, found) for value in filter(None, values.split(", "))]
            found[name] = last = self.step(what, given, self.wording.vformat(goal, (self, self.name), found))
        return last

    def value(self, text: str, names: Mapping[str, Any]) -> Any:
        """Return what a step's value stands for: a whole number, something that has a name, else the text."""
        if text.isdecimal():
            return int(text)
        return self.wording.get_field(text, (self, self.name), names)[0] if text.split("[")[0] in names else text

    def step(self, what: str, values: list[Any], goal: str) -> Any:
        """Plan a step, as the suite's own steps are meant."""
        raise NotImplementedError

    def draft(self, question: str, answer: Any, scorer: str = "", **further: Any) -> Draft:
        """Return the task. `answer`: a reference, a literal or a structure of both; None: there is no answer."""
        expected = self.seen(answer)
        if self.environment is None:
            self.settle()
        plan, state = Plan(tuple(self.calls), answer), self.environment.state()
        by_type = "set" if isinstance(expected, list) else "normalized" if isinstance(expected, str) else "numeric"
        return Draft(question, plan, expected, scorer or by_type, world=self.world, end_state=state, **further)


AnyStory = TypeVar("AnyStory", bound=Story)


def _template(teller: Callable[[Draw], AnyStory], tell: Callable[[AnyStory], Draft]) -> Template:
    """Make a template of a story: it starts over at a DeadEnd. Raises ValueError where all draws end dead."""

    @functools.wraps(tell)
    def template(draw: Draw) -> Draft:
        for _ in range(MAX_DRAWS):
            try:
                story = teller(draw)
                story.name = tell.__name__.strip("_")
                return tell(story)
            except DeadEnd:
                continue
        raise ValueError(f"template {tell.__name__!r} found no task in {MAX_DRAWS} draws")

    return template


def told_suite(
    name: str,
    version: str,
    teller: Callable[[Draw], AnyStory],
    stories: tuple[Sequence[Callable[[AnyStory], Draft]], Sequence[Callable[[AnyStory], Draft]]],
    open_task: Callable[[Task], Environment],
    **options: Any,
) -> Source:
    """Return a suite of `stories`, those with an answer and those without. `options`: of its Source, `snapshots=None` for none."""
    templates, unanswerable = ([_template(teller, tell) for tell in some] for some in stories)
    tasks = functools.partial(generate, name, templates=templates, unanswerable=unanswerable)
    return Source(name, version, tasks, open_task, **{"snapshots": SNAPSHOTS, **options})
