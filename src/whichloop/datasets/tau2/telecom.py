"""tau2-bench's domain `telecom` in solo mode: one agent with the company's tools and the customer's phone in its hands. Own code.

A folder holds `tasks.json`, `db.toml` (the company), `user_db.toml` (the phone), `main_policy_solo.md` and
`tech_support_manual.md`. Rules, figures and names are tau2's; the clock stands at its 25 February 2025.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

from ..importing.json_files import checked, text_file
from . import phone, phone_tools
from .domain import (
    ClosedRow,
    Database,
    Domain,
    Functions,
    NotFound,
    Record,
    RefusedCall,
    first,
    merged,
    rows,
    shape,
)

TODAY = date(2025, 2, 25)
DAYS_TO_PAY = 14


TABLES = shape(
    ClosedRow,
    customers=rows(
        **dict.fromkeys(("customer_id", "full_name", "date_of_birth", "phone_number"), str),
        line_ids=(list[str], []),
        bill_ids=(list[str], []),
    ),
    lines=rows(
        **dict.fromkeys(("line_id", "phone_number", "plan_id"), str),
        status=(Literal["Active", "Suspended", "Pending Activation", "Closed"], "Pending Activation"),
        data_used_gb=(float, 0.0),
        data_refueling_gb=(float, 0.0),
        roaming_enabled=(bool, False),
    ),
    plans=rows(plan_id=str, data_limit_gb=float, price_per_month=float, data_refueling_price_per_gb=float),
    bills=rows(
        **dict.fromkeys(("bill_id", "customer_id", "issue_date"), str),
        total_due=float,
        status=(Literal["Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"], "Draft"),
    ),
    devices=rows(device_id=str),
)
"""The shape of `db.toml`; fields that no tool reads are kept."""


# --- finding ---


def row_of(db: Database, table: str, key: str) -> Record:
    """Return the row of a table by its id. Raises NotFound."""
    kind = table.removesuffix("s")
    return first(db["carrier"][table], lambda row: row[f"{kind}_id"] == key, f"There is no {kind} {key!r}")


def bills_of(db: Database, customer: Record, status: str = "") -> list[Record]:
    """Return a customer's bills, all or those of a status."""
    bills = (row_of(db, "bills", key) for key in customer["bill_ids"])
    return [bill for bill in bills if status in ("", bill["status"])]


def _line_of(db: Database, customer_id: str, line_id: str) -> Record:
    if line_id not in row_of(db, "customers", customer_id)["line_ids"]:
        raise NotFound(f"Customer {customer_id} has no line {line_id!r}")
    return row_of(db, "lines", line_id)


# --- the agent's tools ---


def get_customer_by_phone(db: Database, phone_number: str) -> Record:
    """Look up the customer by a phone number."""

    def fits(customer: Record) -> bool:
        lines = (row_of(db, "lines", key) for key in customer["line_ids"])
        return phone_number in (customer["phone_number"], *(line["phone_number"] for line in lines))

    return first(db["carrier"]["customers"], fits, f"No customer has the number {phone_number!r}")


def get_customer_by_id(db: Database, customer_id: str) -> Record:
    """Look up a customer by id."""
    return row_of(db, "customers", customer_id)


def get_customer_by_name(db: Database, full_name: str, dob: str) -> list[Record]:
    """Look up customers by name and date of birth; there may be several or none."""
    wanted = (full_name.lower(), dob)
    return [row for row in db["carrier"]["customers"] if (row["full_name"].lower(), row["date_of_birth"]) == wanted]


_TABLES = {"L": "lines", "D": "devices", "B": "bills", "C": "customers", "P": "plans"}


def get_details_by_id(db: Database, id: str) -> Record:  # noqa: A002  # tau2's own name
    """Look up whatever an id names: a customer, line, device, bill or plan."""
    if id[:1] not in _TABLES:
        raise NotFound(f"No kind of id looks like {id!r}")
    return row_of(db, _TABLES[id[:1]], id)


def get_bills_for_customer(db: Database, customer_id: str, limit: int = 12) -> list[Record]:
    """List a customer's bills, the latest first."""
    bills = bills_of(db, row_of(db, "customers", customer_id))
    return sorted(bills, key=lambda bill: str(bill["issue_date"]), reverse=True)[:limit]


def get_data_usage(db: Database, customer_id: str, line_id: str) -> Record:
    """Tell how much data a line has used in this billing cycle, how much it may use, and when the cycle ends."""
    line = _line_of(db, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": line["data_used_gb"],
        "data_limit_gb": row_of(db, "plans", line["plan_id"])["data_limit_gb"],
        "data_refueling_gb": line["data_refueling_gb"],
        "cycle_end_date": (_next_month(TODAY) - timedelta(days=1)).isoformat(),
    }


def suspend_line(db: Database, customer_id: str, line_id: str, reason: str) -> Record:
    """Suspend an active line, for six months at most; holding it costs 5 dollars a month."""
    line = _line_of(db, customer_id, line_id)
    if line["status"] != "Active":
        raise RefusedCall(f"Line {line_id} is not active")
    line.update(status="Suspended", suspension_start_date=TODAY.isoformat())
    return line


def resume_line(db: Database, customer_id: str, line_id: str) -> Record:
    """Make a line active again that is suspended or waits for its activation."""
    line = _line_of(db, customer_id, line_id)
    if line["status"] not in ("Suspended", "Pending Activation"):
        raise RefusedCall(f"Line {line_id} is not suspended")
    line.update(status="Active", suspension_start_date=None)
    return line


def send_payment_request(db: Database, customer_id: str, bill_id: str) -> Record:
    """Ask the customer to pay a bill; only one may be asked for at a time. Whether it is paid already is not checked."""
    customer = row_of(db, "customers", customer_id)
    if bills_of(db, customer, "Awaiting Payment"):
        raise RefusedCall("Another bill of this customer awaits its payment")
    if bill_id not in customer["bill_ids"]:
        raise NotFound(f"Customer {customer_id} has no bill {bill_id!r}")
    bill = row_of(db, "bills", bill_id)
    bill["status"] = "Awaiting Payment"
    return {"bill_id": bill_id, "status": bill["status"]}


def enable_roaming(db: Database, customer_id: str, line_id: str) -> Record:
    """Allow a line to be used abroad."""
    _line_of(db, customer_id, line_id)["roaming_enabled"] = True
    return {"line_id": line_id, "roaming_enabled": True}


def disable_roaming(db: Database, customer_id: str, line_id: str) -> Record:
    """Forbid a line to be used abroad."""
    _line_of(db, customer_id, line_id)["roaming_enabled"] = False
    return {"line_id": line_id, "roaming_enabled": False}


def refuel_data(db: Database, customer_id: str, line_id: str, gb_amount: float) -> Record:
    """Add data to a line for this billing cycle, at its plan's price per gigabyte, which goes on the customer's next bill."""
    line = _line_of(db, customer_id, line_id)
    if gb_amount <= 0:
        raise RefusedCall("The amount is not above 0")
    price = row_of(db, "plans", line["plan_id"])["data_refueling_price_per_gb"]
    line["data_refueling_gb"] += gb_amount
    bill = _draft_of(db, row_of(db, "customers", customer_id))
    _charge(bill, gb_amount * price, f"{gb_amount} GB of data at {price} dollars")
    return {"line_id": line_id, "data_refueling_gb": line["data_refueling_gb"], "charge": gb_amount * price}


def transfer_to_human_agents(db: Database, summary: str) -> str:
    """Hand the customer over to a human agent.

    Only where the customer asks for one, or where policy and tools leave no way to solve the issue.
    """
    return "Transfer successful"


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _charge(bill: Record, amount: float, description: str) -> None:
    item = {"description": description, "amount": amount, "date": TODAY.isoformat(), "item_type": "Charge"}
    bill["line_items"] = [*bill.get("line_items", ()), item]
    bill["total_due"] += amount


def _draft_of(db: Database, customer: Record) -> Record:
    """Return the customer's next bill; a new one has an id that its customer and place decide, alike in every run."""
    if drafts := bills_of(db, customer, "Draft"):
        return drafts[0]
    start = _next_month(TODAY)
    name = hashlib.sha256(f"{customer['customer_id']}/{len(customer['bill_ids'])}".encode()).hexdigest()[:8]
    return _add_bill(db, customer, f"B{name}", (start, _next_month(start) - timedelta(days=1)), "Draft")


def _add_bill(db: Database, customer: Record, key: str, period: tuple[date, date], status: str) -> Record:
    bill = {
        "bill_id": key,
        "customer_id": customer["customer_id"],
        "period_start": period[0].isoformat(),
        "period_end": period[1].isoformat(),
        "issue_date": period[0].isoformat(),
        "total_due": 0.0,
        "due_date": (period[0] + timedelta(days=DAYS_TO_PAY)).isoformat(),
        "line_items": [],
        "status": status,
    }
    db["carrier"]["bills"].append(bill)
    customer["bill_ids"].append(key)
    return bill


TOOLS: tuple[Callable[..., Any], ...] = (
    *(get_customer_by_phone, get_customer_by_id, get_customer_by_name, get_details_by_id, suspend_line, resume_line),
    *(get_bills_for_customer, send_payment_request, get_data_usage, enable_roaming, disable_roaming),
    *(transfer_to_human_agents, refuel_data),
)
WRITES = tuple(tool for tool in TOOLS if not tool.__name__.startswith("get_"))

# --- what tasks begin with ---


def suspend_line_for_overdue_bill(db: Database, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool) -> None:
    """Add an overdue bill of last month for a line, and suspend the line for it."""
    line, customer = row_of(db, "lines", line_id), row_of(db, "customers", customer_id)
    price = row_of(db, "plans", line["plan_id"])["price_per_month"]
    if line["status"] != "Active" or price <= 0 or bills_of(db, customer, "Overdue"):
        raise RefusedCall(f"Line {line_id} cannot be suspended for a bill")
    end = TODAY.replace(day=1) - timedelta(days=1)
    bill = _add_bill(db, customer, new_bill_id, (end.replace(day=1), end), "Overdue")
    _charge(bill, price, f"Line {line_id}")
    line.update(status="Suspended", suspension_start_date=TODAY.isoformat())
    if contract_ended:
        line["contract_end_date"] = end.isoformat()


SETUP: Functions = {
    "set_data_usage": lambda db, customer_id, line_id, data_used_gb: _line_of(db, customer_id, line_id).update(
        data_used_gb=data_used_gb
    ),
    "suspend_line_for_overdue_bill": suspend_line_for_overdue_bill,
}


# --- what may be asserted; each may raise NotFound ---


ASSERTIONS: Functions = {
    "assert_data_refueling_amount": lambda db, customer_id, line_id, expected_amount: (
        abs(_line_of(db, customer_id, line_id)["data_refueling_gb"] - expected_amount) < 1e-6
    ),
    "assert_line_status": lambda db, customer_id, line_id, expected_status: (
        _line_of(db, customer_id, line_id)["status"] == expected_status
    ),
    "assert_overdue_bill_exists": lambda db, customer_id, overdue_bill_id: (
        overdue_bill_id in row_of(db, "customers", customer_id)["bill_ids"]
        and row_of(db, "bills", overdue_bill_id)["status"] == "Overdue"
    ),
    "assert_no_overdue_bill": lambda db, overdue_bill_id: all(
        bill["status"] == "Paid" for bill in db["carrier"]["bills"] if bill["bill_id"] == overdue_bill_id
    ),
}


# --- the domain ---


COMPANY, PHONE = "db.toml", "user_db.toml"
POLICIES = (("main_policy", "main_policy_solo.md"), ("tech_support_policy", "tech_support_manual.md"))
"""The mark that a part of the policy stands in, as published, and its file."""


def _toml(path: Path) -> Any:
    """Read a TOML file as JSON, dates as text. Raises ValueError and OSError."""
    text = text_file(path)
    try:
        return json.loads(json.dumps(tomllib.loads(text), default=str, allow_nan=False))
    except ValueError as error:  # numbers that JSON lacks, too
        raise ValueError(f"{path}: not TOML: {error}") from None


def _database(company: Any, customer: Any, where: tuple[str, str]) -> Database:
    tables = checked(TABLES, company, where[0]).model_dump()
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
    limit = row_of(db, "plans", line["plan_id"])["data_limit_gb"] + line["data_refueling_gb"]
    around["line_active"] = line["status"] == "Active"
    around["roaming_allowed"] = line["roaming_enabled"]
    around["mobile_data_usage_exceeded"] = line["data_used_gb"] >= limit
    payment_request = around["payment_request"]
    if payment_request is not None and payment_request["paid"]:
        row_of(db, "bills", payment_request["bill_id"])["status"] = "Paid"
        payment_request = around["payment_request"] = None
    waiting = bills_of(db, get_customer_by_phone(db, number), "Awaiting Payment")
    if payment_request is None and waiting:
        around["payment_request"] = {"bill_id": waiting[0]["bill_id"], "amount_due": waiting[0]["total_due"], "paid": False}


_USER_TOOLS = (*phone_tools.CHECKS, *phone_tools.CHANGES)

DOMAIN = Domain(
    name="telecom",
    tools=(*TOOLS, *_USER_TOOLS),
    writes=(*WRITES, *phone_tools.CHANGES),
    user_tools={tool.__name__ for tool in _USER_TOOLS},
    setup={"assistant": SETUP, "user": phone_tools.SETUP},
    assertions={"assistant": ASSERTIONS, "user": phone_tools.ASSERTIONS},
    merge=merge,
    settle=settle,
)
