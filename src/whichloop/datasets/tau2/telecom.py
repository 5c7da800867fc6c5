"""tau2-bench's domain `telecom` in solo mode: one agent with the company's tools and the customer's phone in its hands.

A folder holds `tasks.json`, `db.toml` (the company), `user_db.toml` (the phone), `main_policy_solo.md` and
`tech_support_manual.md`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..importing.json_files import checked, text_file
from . import carrier, phone, phone_tools
from .domain import Database, Domain, first, merged

COMPANY, PHONE = "db.toml", "user_db.toml"
POLICIES = (("main_policy", "main_policy_solo.md"), ("tech_support_policy", "tech_support_manual.md"))
"""The mark that a part of the policy stands in, as published, and its file."""


def _toml(path: Path) -> Any:
    """Read a TOML file as JSON, dates as text. Raises ValueError and OSError."""
    try:
        return json.loads(json.dumps(tomllib.loads(text_file(path)), default=str, allow_nan=False))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None


def _database(company: Any, customer: Any, where: tuple[str, str]) -> Database:
    tables = checked(carrier.TABLES, company, where[0]).model_dump()
    return {"carrier": tables, **checked(phone.TABLES, customer, where[1]).model_dump()}


def read_database(folder: Path) -> Database:
    """Read the company and the phone. Raises ValueError and OSError."""
    company, customer = folder / COMPANY, folder / PHONE
    return _database(_toml(company), _toml(customer), (str(company), str(customer)))


def policy(folder: Path) -> str:
    """Read the policy with the manual. Raises ValueError and OSError."""
    return "\n".join(f"<{mark}>\n{text_file(folder / name).strip()}\n</{mark}>" for mark, name in POLICIES)


def merge(db: Database, agent: Mapping[str, Any], user: Mapping[str, Any]) -> Database:
    """Merge initial data into a copy of the database. Raises ValueError."""
    customer = {name: db[name] for name in ("device", "surroundings")}
    where = "initialization_data"
    return _database(merged(db["carrier"], agent), merged(customer, user), (where, where))


def settle(db: Database) -> None:
    """Let the phone know what the company knows of its line, and the company what was paid. Raises NotFound."""
    around = db["surroundings"]
    if around["phone_number"] is None:
        return
    number = around["phone_number"]
    line = first(db["carrier"]["lines"], lambda line: line["phone_number"] == number, f"No line has the number {number!r}")
    limit = carrier.row_of(db, "plans", line["plan_id"])["data_limit_gb"] + line["data_refueling_gb"]
    around["line_active"] = line["status"] == "Active"
    around["roaming_allowed"] = line["roaming_enabled"]
    around["mobile_data_usage_exceeded"] = line["data_used_gb"] >= limit
    payment_request = around["payment_request"]
    if payment_request is not None and payment_request["paid"]:
        carrier.row_of(db, "bills", payment_request["bill_id"])["status"] = "Paid"
        payment_request = around["payment_request"] = None
    waiting = carrier.bills_of(db, carrier.get_customer_by_phone(db, number), "Awaiting Payment")
    if payment_request is None and waiting:
        around["payment_request"] = {"bill_id": waiting[0]["bill_id"], "amount_due": waiting[0]["total_due"], "paid": False}


_USER_TOOLS = (*phone_tools.CHECKS, *phone_tools.CHANGES)

DOMAIN = Domain(
    name="telecom",
    tools=(*carrier.TOOLS, *_USER_TOOLS),
    writes=(*carrier.WRITES, *phone_tools.CHANGES),
    user_tools={tool.__name__ for tool in _USER_TOOLS},
    setup={"assistant": carrier.SETUP, "user": phone_tools.SETUP},
    assertions={"assistant": carrier.ASSERTIONS, "user": phone_tools.ASSERTIONS},
    merge=merge,
    settle=settle,
)
