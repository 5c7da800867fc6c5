"""Sentences and tables as HTML for a notebook's cell: no colors of its own, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from whichloop.text.doc import Table
from whichloop.text.output import terminal_safe

_BLOCK = "font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.4; overflow-x: auto;"
_LINE = "margin: 0 0 0.4em;"
_TABLE = "border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.4em 0; color: inherit; font-size: inherit;"
_CELL = "padding: 0.15em 0.7em 0.15em 0; text-align: left; white-space: nowrap; border-bottom: 1px solid rgba(128, 128, 128, 0.4);"


def block(title: str, sentences: Sequence[str], tables: Sequence[Table], footer: str = "") -> str:
    """Return a title, a paragraph for each sentence, the tables, and a footer in a lighter shade."""
    parts = [f'<p style="{_LINE}"><b>{_escaped(title)}</b></p>']
    parts += [f'<p style="{_LINE}">{_escaped(sentence)}</p>' for sentence in sentences]
    parts += [_table(table) for table in tables]
    if footer:
        parts.append(f'<p style="{_LINE} opacity: 0.7;">{_escaped(footer)}</p>')
    return f'<div style="{_BLOCK}">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return escape(terminal_safe(text))


def _table(table: Table) -> str:
    head, body = _row("th", table.columns), "".join(_row("td", row) for row in table.texts)
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _row(tag: str, cells: Sequence[str]) -> str:
    inner = "".join(f'<{tag} style="{_CELL}">{_escaped(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inner}</tr>"


def preformatted(text: str) -> str:
    """Return text in a fixed-width font, as a terminal shows it."""
    return f'<pre style="{_LINE} line-height: 1.3;">{escape(text)}</pre>'
