"""The shape of the database of tau2-bench's domain `retail`."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from pydantic import ConfigDict

from ..importing.json_files import JsonRow


class _Item(JsonRow):
    model_config = ConfigDict(extra="allow")
    item_id: str
    product_id: str
    price: float


class _Payment(JsonRow):
    model_config = ConfigDict(extra="allow")
    transaction_type: Literal["payment", "refund"]
    amount: float
    payment_method_id: str


class _Order(JsonRow):
    model_config = ConfigDict(extra="allow")
    order_id: str
    user_id: str
    status: str
    items: list[_Item]
    payment_history: list[_Payment]


class _Variant(JsonRow):
    model_config = ConfigDict(extra="allow")
    item_id: str
    options: dict[str, Any]
    available: bool
    price: float


class _Product(JsonRow):
    model_config = ConfigDict(extra="allow")
    name: str
    product_id: str
    variants: dict[str, _Variant]


class _Name(JsonRow):
    first_name: str
    last_name: str


class AddressFields(TypedDict):
    """An address, as a tool takes it."""

    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str


class Address(JsonRow):
    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class _Method(JsonRow):
    model_config = ConfigDict(extra="allow")
    source: str
    id: str


class _User(JsonRow):
    model_config = ConfigDict(extra="allow")
    user_id: str
    name: _Name
    address: Address
    email: str
    payment_methods: dict[str, _Method]
    orders: list[str]


class RetailTables(JsonRow):
    """The shape of `db.json`: each table by the ids of its records."""

    products: dict[str, _Product]
    users: dict[str, _User]
    orders: dict[str, _Order]
