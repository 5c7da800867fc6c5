"""Receipts of calls that a test says were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.models.receipts import Ledger, ReceiptEntry, call_digest


def issue(ledger: Ledger, tool: str, arguments: Mapping[str, Any], text: str, value: Any, ok: bool) -> ReceiptEntry:
    """Add the receipt of a call to a ledger."""
    return ledger.sign(call_digest(tool, arguments), text, value, ok)
