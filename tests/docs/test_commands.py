"""Every command of the docs is one. What they print is held by the tests of their pages.

Those in blocks are parsed: options exist, and arguments are enough. Of those in sentences, which may be parts, the options exist.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from tests.docs.pages import DOCS, ROOT
from whichloop.cli.main import ClickError, app

PAGES = [*(ROOT / name for name in ("AGENTS.md", "README.md", "CONTRIBUTING.md")), *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
"""In a fence, or indented."""
TYPED = re.compile(r"\s*(?:\$ |- |[\w ]+ {2,})?whichloop (.+?)(?: {2,}.*)?")
"""A line that is typed, with what explains it, or a labelled one that is printed."""
BETWEEN = re.compile(r"\s(?:&&|\|\|?|;|<|>)\s")
COMMAND: Any = typer.main.get_command(app)
IN_SENTENCE = re.compile(r"`whichloop ([^`]+)`")


def typed() -> Iterator[tuple[str, str]]:
    """Yield the page and the command, without `whichloop`, of each in a block."""
    for page in PAGES:
        for fenced, indented in BLOCK.findall(page.read_text("utf-8")):
            for line in re.sub(r"\\\n *", " ", fenced or indented).splitlines():
                for part in BETWEEN.split(line):
                    if found := TYPED.fullmatch(part):
                        yield page.name, " ".join(found[1].split())


def in_sentences() -> Iterator[tuple[str, str]]:
    """Yield those in sentences."""
    for page in PAGES:
        for found in IN_SENTENCE.findall(BLOCK.sub("", page.read_text("utf-8"))):
            if not found.startswith("COMMAND"):
                yield page.name, " ".join(found.split())


def named(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the first words name, and the others."""
    command = COMMAND
    while inner := getattr(command, "commands", None):
        first, *words = words or [""]
        assert first in inner, f"no such command: {first}"
        command = inner[first]
    return command, words


@pytest.mark.parametrize(("page", "text"), dict.fromkeys(typed()))
def test_a_command_in_a_block_is_parsed(page: str, text: str) -> None:
    command, words = named(shlex.split(re.sub(r"\[(-[^]]*)\]", r"\1", text), comments=True))
    try:
        command.make_context(command.name, words)
    except ClickError as error:
        pytest.fail(f"{page}: whichloop {text}: {getattr(error, 'message', error)}")


@pytest.mark.parametrize(("page", "text"), dict.fromkeys(in_sentences()))
def test_a_command_in_a_sentence_has_its_options(page: str, text: str) -> None:
    command, words = named(shlex.split(text))
    known = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}
    ours = words[: words.index("--")] if "--" in words else words
    assert {word.partition("=")[0] for word in ours if word.startswith("-")} <= known


def test_commands_are_found() -> None:
    assert len(set(typed())) > 60
    assert ("serve.md", "serve --suite arithmetic --profile flaky-tools") in typed()
