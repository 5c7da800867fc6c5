"""The shape of the database of tau2-bench's domain `airline`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from ..importing.json_files import JsonRow

Cabin = Literal["basic_economy", "economy", "business"]


class _Day(JsonRow):
    """A flight on one day; only where it is `available` are there seats and prices."""

    model_config = ConfigDict(extra="allow")
    status: str


class _Flight(JsonRow):
    model_config = ConfigDict(extra="allow")
    flight_number: str
    origin: str
    destination: str
    scheduled_departure_time_est: str
    scheduled_arrival_time_est: str
    dates: dict[str, _Day]


class _Segment(JsonRow):
    model_config = ConfigDict(extra="allow")
    flight_number: str
    date: str
    price: int


class _Payment(JsonRow):
    payment_id: str
    amount: int


class _Reservation(JsonRow):
    model_config = ConfigDict(extra="allow")
    reservation_id: str
    user_id: str
    cabin: Cabin
    flights: list[_Segment]
    passengers: list[dict[str, Any]]
    payment_history: list[_Payment]
    total_baggages: int
    nonfree_baggages: int


class _Method(JsonRow):
    model_config = ConfigDict(extra="allow")
    source: str
    id: str


class _User(JsonRow):
    model_config = ConfigDict(extra="allow")
    user_id: str
    payment_methods: dict[str, _Method]
    reservations: list[str]


class AirlineTables(JsonRow):
    """The shape of `db.json`: each table by the ids of its records."""

    flights: dict[str, _Flight]
    users: dict[str, _User]
    reservations: dict[str, _Reservation]
