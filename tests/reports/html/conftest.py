"""Runs to make pages of, and a parser that says what a page holds."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put
from tests.sealing import reseal
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store.trials import read_trace
from whichloop.text.output import terminal_safe

VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})
_TAGS = (
    "html head meta title link style body header main section div script h1 h2 p pre code strong details summary dl dt dd "
    "table caption thead tbody tr th td figure figcaption svg desc text line rect path g"
)
_ATTRIBUTES = (
    "lang charset http-equiv content name rel href class tabindex role scope aria-label xmlns width height x y x1 x2 y1 y2 d "
    "overflow text-anchor"
)
TAGS, ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_ATTRIBUTES.split())
HOSTILE = (
    "<script>alert(1)</script></style></textarea>\"'><img src=x onerror=alert(1)>&lt;b&gt;{{ 7*7 }}\x1b[2J\u202e\u2066\x00\ud800"
)
"""What breaks out of text, attributes, styles, scripts, templates, terminals and the writing direction."""


def compared(folder: Path, **config: Any) -> Results:
    experiment = prepare(CompareConfig(runs=folder / "runs", mlflow=False, **config))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="session")
def breeze(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three designs over a few tasks under two profiles, twice each."""
    loops, profiles = ("bare", "phased", "react_extract"), ("flaky-format", "flaky-tools")
    return compared(tmp_path_factory.mktemp("breeze"), loops=loops, profiles=profiles, suite="arithmetic(size=10)", repeats=2)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """One design in clean air."""
    return compared(tmp_path_factory.mktemp("calm"), loops=("bare",), suite="arithmetic(size=6)")


@pytest.fixture(scope="session")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Results, str], Results]:
    """A copy of a run in which every text that a model, a tool, a task or a file can say ends with a given one."""

    def spoil(found: Results, text: str) -> Results:
        folder = tmp_path_factory.mktemp("spoiled") / "run<b>"
        folder.mkdir()
        manifest = with_text(json.loads((found.folder / MANIFEST).read_text()), text)
        (folder / MANIFEST).write_text(json.dumps(manifest))
        reseal(folder / MANIFEST)
        records, traces = [], []
        for record in found.records:
            line = with_text(record.to_json(), text, kept=("suite_digest", "status"))
            trace = with_text(read_trace(found.folder, record).to_json(), text, kept=EVENTS) if record.trace_at else None
            traces.append(b"" if trace is None else json.dumps(trace).encode() + b"\n")
            records.append(line)
        put(folder, records, traces)
        return results(folder)

    return spoil


EVENTS = ("event", "role", "status")
"""Of a trace's events: our own words, which tell what an event is."""


def with_text(value: Any, text: str, kept: tuple[str, ...] = ()) -> Any:
    """Every text in a JSON value, the names of counts too, with `text` behind it; not what stands under a name in `kept`."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, list):
        return [with_text(item, text, kept) for item in value]
    if isinstance(value, dict):
        names = {name: f"{name}{text}" if isinstance(item, int) and "." in name else name for name, item in value.items()}
        return {names[name]: item if name in kept else with_text(item, text, kept) for name, item in value.items()}
    return value


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str | None]
    parents: tuple[str, ...]
    text: str = ""


class Page(HTMLParser):
    """All elements of a page in order, each with the text in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.declarations: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, "an element that is never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), "an attribute that stands twice"
        made = Element(tag, dict(attrs), tuple(element.tag for element in self.open))
        self.elements.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def named(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]


def check_safe(text: str) -> Page:
    """Only our own elements, attributes, style and script, whose digests the policy names; gives what was read."""
    assert terminal_safe(text) == text
    found = Page(text)
    assert found.declarations == ["doctype html"]
    assert {element.tag for element in found.elements} <= TAGS
    assert {name for element in found.elements for name in element.attributes} <= ATTRIBUTES
    for element in found.elements:
        assert element.attributes.get("href", "data:,") == "data:,"
    policy = str(found.elements[3].attributes["content"])
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (own,) = found.named(tag)
        digest = base64.b64encode(hashlib.sha256(own.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.search(r"@import|url\(|fetch|XMLHttp|import\(", own.text)
    return found


@pytest.fixture(scope="session")
def safe() -> Callable[[str], Page]:
    """Reads a page, and holds it against what a page of ours may have."""
    return check_safe


@pytest.fixture(scope="session")
def hostile() -> str:
    """Text that breaks out where it is not escaped."""
    return HOSTILE
