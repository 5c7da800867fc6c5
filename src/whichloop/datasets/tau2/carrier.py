"""The telephone company of tau2-bench's domain `telecom`: customers, lines, plans, bills, devices, and the agent's tools. Own code.

Rules, figures and names are tau2's; the clock stands at its 25 February 2025.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any, Literal

from pydantic import ConfigDict, Field

from ..importing.json_files import JsonRow
from .domain import Database, NotFound, RefusedCall

TODAY = date(2025, 2, 25)
DAYS_TO_PAY = 14

Row = dict[str, Any]


class _Open(JsonRow):
    model_config = ConfigDict(extra="allow")


class _Customer(_Open):
    customer_id: str
    full_name: str
    date_of_birth: str
    phone_number: str
    line_ids: list[str] = Field(default_factory=list)
    bill_ids: list[str] = Field(default_factory=list)


class _Line(_Open):
    line_id: str
    phone_number: str
    status: Literal["Active", "Suspended", "Pending Activation", "Closed"] = "Pending Activation"
    plan_id: str
    data_used_gb: float = 0.0
    data_refueling_gb: float = 0.0
    roaming_enabled: bool = False


class _Plan(_Open):
    plan_id: str
    data_limit_gb: float
    price_per_month: float
    data_refueling_price_per_gb: float


class _Bill(_Open):
    bill_id: str
    customer_id: str
    issue_date: str
    total_due: float
    status: Literal["Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"] = "Draft"


class _Device(_Open):
    device_id: str


class CompanyTables(JsonRow):
    """The shape of `db.toml`; fields that no tool reads are kept."""

    model_config = ConfigDict(extra="forbid")

    customers: list[_Customer]
    lines: list[_Line]
    plans: list[_Plan]
    bills: list[_Bill]
    devices: list[_Device]


# --- finding ---


def row_of(db: Database, table: str, key: str) -> Row:
    """Return the row of a table by its id. Raises NotFound."""
    kind = table.removesuffix("s")
    for row in db["carrier"][table]:
        if row[f"{kind}_id"] == key:
            result: Row = row
            return result
    raise NotFound(f"There is no {kind} {key!r}")


def line_of_number(db: Database, phone_number: str) -> Row:
    """Return the line that has a phone number. Raises NotFound."""
    for line in db["carrier"]["lines"]:
        if line["phone_number"] == phone_number:
            result: Row = line
            return result
    raise NotFound(f"No line has the number {phone_number!r}")


def customer_of_number(db: Database, phone_number: str) -> Row:
    """Return the customer whose own number, or the number of whose line, this is. Raises NotFound."""
    for customer in db["carrier"]["customers"]:
        numbers = [customer["phone_number"], *(row_of(db, "lines", key)["phone_number"] for key in customer["line_ids"])]
        if phone_number in numbers:
            result: Row = customer
            return result
    raise NotFound(f"No customer has the number {phone_number!r}")


def bills_awaiting(db: Database, customer: Row) -> list[Row]:
    """Return a customer's bills that a payment was asked for."""
    bills = [row_of(db, "bills", key) for key in customer["bill_ids"]]
    return [bill for bill in bills if bill["status"] == "Awaiting Payment"]


def _line_of(db: Database, customer_id: str, line_id: str) -> Row:
    if line_id not in row_of(db, "customers", customer_id)["line_ids"]:
        raise NotFound(f"Customer {customer_id} has no line {line_id!r}")
    return row_of(db, "lines", line_id)


# --- the agent's tools ---


def get_customer_by_phone(db: Database, phone_number: str) -> Row:
    """Look up the customer by a phone number.

    Args:
        phone_number: The customer's own number, or that of one of their lines.
    """
    return copy.deepcopy(customer_of_number(db, phone_number))


def get_customer_by_id(db: Database, customer_id: str) -> Row:
    """Look up a customer by id.

    Args:
        customer_id: The customer's id.
    """
    return copy.deepcopy(row_of(db, "customers", customer_id))


def get_customer_by_name(db: Database, full_name: str, dob: str) -> list[Row]:
    """Look up customers by name and date of birth; there may be several or none.

    Args:
        full_name: First and last name, in any case.
        dob: Date of birth, YYYY-MM-DD.
    """
    wanted = (full_name.lower(), dob)
    rows = db["carrier"]["customers"]
    return copy.deepcopy([row for row in rows if (row["full_name"].lower(), row["date_of_birth"]) == wanted])


_TABLES = {"L": "lines", "D": "devices", "B": "bills", "C": "customers", "P": "plans"}


def get_details_by_id(db: Database, id: str) -> Row:  # noqa: A002  # tau2's own name
    """Look up whatever an id names: a customer, line, device, bill or plan.

    Args:
        id: The id; its first letter says what it names.
    """
    if id[:1] not in _TABLES:
        raise NotFound(f"No kind of id looks like {id!r}")
    return copy.deepcopy(row_of(db, _TABLES[id[:1]], id))


def get_bills_for_customer(db: Database, customer_id: str, limit: int = 12) -> list[Row]:
    """List a customer's bills, the latest first.

    Args:
        customer_id: The customer's id.
        limit: The largest number of bills to list.
    """
    bills = [row_of(db, "bills", key) for key in row_of(db, "customers", customer_id)["bill_ids"]]
    return copy.deepcopy(sorted(bills, key=lambda bill: str(bill["issue_date"]), reverse=True)[:limit])


def get_data_usage(db: Database, customer_id: str, line_id: str) -> Row:
    """Tell how much data a line has used in this billing cycle, how much it may use, and when the cycle ends.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
    """
    line = _line_of(db, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": line["data_used_gb"],
        "data_limit_gb": row_of(db, "plans", line["plan_id"])["data_limit_gb"],
        "data_refueling_gb": line["data_refueling_gb"],
        "cycle_end_date": (_next_month(TODAY) - timedelta(days=1)).isoformat(),
    }


def suspend_line(db: Database, customer_id: str, line_id: str, reason: str) -> Row:
    """Suspend an active line, for six months at most; holding it costs 5 dollars a month.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
        reason: Why the line is to be suspended.
    """
    line = _line_of(db, customer_id, line_id)
    if line["status"] != "Active":
        raise RefusedCall(f"Line {line_id} is not active")
    line.update(status="Suspended", suspension_start_date=TODAY.isoformat())
    return dict(line)


def resume_line(db: Database, customer_id: str, line_id: str) -> Row:
    """Make a line active again that is suspended or waits for its activation.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
    """
    line = _line_of(db, customer_id, line_id)
    if line["status"] not in ("Suspended", "Pending Activation"):
        raise RefusedCall(f"Line {line_id} is not suspended")
    line.update(status="Active", suspension_start_date=None)
    return dict(line)


def send_payment_request(db: Database, customer_id: str, bill_id: str) -> Row:
    """Ask the customer to pay a bill; only one may be asked for at a time. Whether it is paid already is not checked.

    Args:
        customer_id: The id of the customer whose bill it is.
        bill_id: The bill's id.
    """
    customer = row_of(db, "customers", customer_id)
    if bills_awaiting(db, customer):
        raise RefusedCall("Another bill of this customer awaits its payment")
    if bill_id not in customer["bill_ids"]:
        raise NotFound(f"Customer {customer_id} has no bill {bill_id!r}")
    bill = row_of(db, "bills", bill_id)
    bill["status"] = "Awaiting Payment"
    return {"bill_id": bill_id, "status": bill["status"]}


def enable_roaming(db: Database, customer_id: str, line_id: str) -> Row:
    """Allow a line to be used abroad.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
    """
    _line_of(db, customer_id, line_id)["roaming_enabled"] = True
    return {"line_id": line_id, "roaming_enabled": True}


def disable_roaming(db: Database, customer_id: str, line_id: str) -> Row:
    """Forbid a line to be used abroad.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
    """
    _line_of(db, customer_id, line_id)["roaming_enabled"] = False
    return {"line_id": line_id, "roaming_enabled": False}


def refuel_data(db: Database, customer_id: str, line_id: str, gb_amount: float) -> Row:
    """Add data to a line for this billing cycle, at its plan's price per gigabyte, which goes on the customer's next bill.

    Args:
        customer_id: The id of the customer who has the line.
        line_id: The line's id.
        gb_amount: How many gigabytes to add.
    """
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

    Args:
        summary: The customer's issue in short.
    """
    return "Transfer successful"


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _charge(bill: Row, amount: float, description: str) -> None:
    item = {"description": description, "amount": amount, "date": TODAY.isoformat(), "item_type": "Charge"}
    bill["line_items"] = [*bill.get("line_items", ()), item]
    bill["total_due"] += amount


def _draft_of(db: Database, customer: Row) -> Row:
    """Return the customer's next bill; a new one has an id that its customer and place decide, alike in every run."""
    for key in customer["bill_ids"]:
        bill = row_of(db, "bills", key)
        if bill["status"] == "Draft":
            return bill
    start = _next_month(TODAY)
    name = hashlib.sha256(f"{customer['customer_id']}/{len(customer['bill_ids'])}".encode()).hexdigest()[:8]
    bill = _bill(f"B{name}", customer, start, _next_month(start) - timedelta(days=1), "Draft")
    db["carrier"]["bills"].append(bill)
    customer["bill_ids"].append(bill["bill_id"])
    return bill


def _bill(key: str, customer: Row, start: date, end: date, status: str) -> Row:
    return {
        "bill_id": key,
        "customer_id": customer["customer_id"],
        "period_start": start.isoformat(),
        "period_end": end.isoformat(),
        "issue_date": start.isoformat(),
        "total_due": 0.0,
        "due_date": (start + timedelta(days=DAYS_TO_PAY)).isoformat(),
        "line_items": [],
        "status": status,
    }


TOOLS: tuple[Callable[..., Any], ...] = (
    get_customer_by_phone,
    get_customer_by_id,
    get_customer_by_name,
    get_details_by_id,
    suspend_line,
    resume_line,
    get_bills_for_customer,
    send_payment_request,
    get_data_usage,
    enable_roaming,
    disable_roaming,
    transfer_to_human_agents,
    refuel_data,
)
READS = frozenset(tool.__name__ for tool in TOOLS if tool.__name__.startswith("get_"))


# --- what tasks begin with ---


def set_data_usage(db: Database, customer_id: str, line_id: str, data_used_gb: float) -> None:
    """Set how much data a line has used."""
    _line_of(db, customer_id, line_id)["data_used_gb"] = data_used_gb


def suspend_line_for_overdue_bill(db: Database, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool) -> None:
    """Add an overdue bill of last month for a line, and suspend the line for it."""
    line, customer = row_of(db, "lines", line_id), row_of(db, "customers", customer_id)
    price = row_of(db, "plans", line["plan_id"])["price_per_month"]
    overdue = [key for key in customer["bill_ids"] if row_of(db, "bills", key)["status"] == "Overdue"]
    if line["status"] != "Active" or price <= 0 or overdue:
        raise RefusedCall(f"Line {line_id} cannot be suspended for a bill")
    end = TODAY.replace(day=1) - timedelta(days=1)
    bill = _bill(new_bill_id, customer, end.replace(day=1), end, "Overdue")
    _charge(bill, price, f"Line {line_id}")
    db["carrier"]["bills"].append(bill)
    customer["bill_ids"].append(new_bill_id)
    line.update(status="Suspended", suspension_start_date=TODAY.isoformat())
    if contract_ended:
        line["contract_end_date"] = end.isoformat()


SETUP: Mapping[str, Callable[..., Any]] = {
    "set_data_usage": set_data_usage,
    "suspend_line_for_overdue_bill": suspend_line_for_overdue_bill,
}


# --- what may be asserted ---


def assert_data_refueling_amount(db: Database, customer_id: str, line_id: str, expected_amount: float) -> bool:
    """Return whether a line has had so much data added. Raises NotFound."""
    return bool(abs(_line_of(db, customer_id, line_id)["data_refueling_gb"] - expected_amount) < 1e-6)


def assert_line_status(db: Database, customer_id: str, line_id: str, expected_status: str) -> bool:
    """Return whether a line has a status. Raises NotFound."""
    return bool(_line_of(db, customer_id, line_id)["status"] == expected_status)


def assert_overdue_bill_exists(db: Database, customer_id: str, overdue_bill_id: str) -> bool:
    """Return whether a bill is a customer's, and overdue. Raises NotFound."""
    bill_ids = row_of(db, "customers", customer_id)["bill_ids"]
    return overdue_bill_id in bill_ids and row_of(db, "bills", overdue_bill_id)["status"] == "Overdue"


def assert_no_overdue_bill(db: Database, overdue_bill_id: str) -> bool:
    """Return whether a bill is paid, or does not exist."""
    return all(bill["status"] == "Paid" for bill in db["carrier"]["bills"] if bill["bill_id"] == overdue_bill_id)


ASSERTIONS: Mapping[str, Callable[..., bool]] = {
    item.__name__: item
    for item in (assert_data_refueling_amount, assert_line_status, assert_overdue_bill_exists, assert_no_overdue_bill)
}
