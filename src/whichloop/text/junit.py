"""JUnit XML, as CI servers read it. Texts may come from a model, a tool or a file: none can end its element."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal
from xml.etree import ElementTree

from .output import terminal_safe

Element = ElementTree.Element
Kind = Literal["failure", "error", "skipped"]
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow (Char, §2.2)."""


def xml_text(content: str) -> str:
    """Return a text with U+FFFD in the place of characters that XML 1.0 does not allow."""
    return _NOT_XML.sub("\ufffd", terminal_safe(content))


def suites(name: str) -> Element:
    """Return the root of a document."""
    return Element("testsuites", name=name)


def add_suite(root: Element, name: str, tests: int, kinds: Mapping[str, int]) -> Element:
    """Add a test suite of so many tests. `kinds`: how many of them are failures, errors and skipped."""
    counts = {"failures": kinds.get("failure", 0), "errors": kinds.get("error", 0), "skipped": kinds.get("skipped", 0)}
    sizes = {"tests": str(tests)} | {kind: str(count) for kind, count in counts.items()}
    return ElementTree.SubElement(root, "testsuite", {"name": xml_text(name)} | sizes)


def add_case(suite: Element, class_name: str, name: str) -> Element:
    """Add a test."""
    return ElementTree.SubElement(suite, "testcase", {"classname": xml_text(class_name), "name": xml_text(name), "time": "0"})


def add_result(case: Element, kind: str, message: str, inside: str = "") -> None:
    """Say that a test failed, had an error or was skipped."""
    ElementTree.SubElement(case, kind, {"message": xml_text(message)}).text = xml_text(inside)


def add_output(element: Element, text: str) -> None:
    """Add what a test, or a suite, printed."""
    ElementTree.SubElement(element, "system-out").text = xml_text(text)


def document(root: Element) -> str:
    """Return the document as text."""
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"
