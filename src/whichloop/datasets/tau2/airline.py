"""tau2-bench's domain `airline`: flights, reservations and customers, and the tools of the airline's service. Own code.

The rules are tau2's: a booking takes seats, a change or a cancellation gives none back, and today is 2024-05-15.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack

from typing_extensions import TypedDict

from ..importing.json_files import JsonRow
from .domain import SERVICE, Domain, Record, RefusedCall, TrialTables, found, payment_method, rows, shape, table

NOW = "2024-05-15T15:00:00"
"""When a reservation of a trial is made."""
INSURANCE, BAG = 30, 50
"""Dollars for each passenger's insurance, and for each bag that is not free."""
NEW_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
"""Ids of the reservations that a trial may make."""
NEW_CERTIFICATES = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
"""Ids of the certificates that a trial may send to one customer."""
AIRPORTS = {
    **{"SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas", "DEN": "Denver"},
    **{"SEA": "Seattle", "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston"},
    **{"LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte", "MSP": "Minneapolis", "DTW": "Detroit"},
    **{"PHL": "Philadelphia", "LGA": "LaGuardia"},
}
Cabin = Literal["basic_economy", "economy", "business"]

# What tools take; their docstrings are part of the schemas.


class PaymentPart(TypedDict):
    """What one payment method pays."""

    payment_id: str
    amount: int


class FlightOfDay(TypedDict):
    """A flight on one day."""

    flight_number: str
    date: str


class Passenger(TypedDict):
    """Who flies."""

    first_name: str
    last_name: str
    dob: str


class NewReservation(TypedDict):
    """What a booking takes."""

    user_id: str
    origin: str
    destination: str
    flight_type: Literal["one_way", "round_trip"]
    cabin: Cabin
    flights: list[FlightOfDay]
    passengers: list[Passenger]
    payment_methods: list[PaymentPart]
    total_baggages: int
    nonfree_baggages: int
    insurance: Literal["yes", "no"]


TABLES = shape(
    JsonRow,
    flights=table(
        **dict.fromkeys(
            ("flight_number", "origin", "destination", "scheduled_departure_time_est", "scheduled_arrival_time_est"), str
        ),
        dates=table(status=str),  # a day has seats and prices only where it is `available`
    ),
    users=table(user_id=str, payment_methods=table(source=str, id=str), reservations=list[str]),
    reservations=table(
        reservation_id=str,
        user_id=str,
        cabin=Cabin,
        flights=rows(flight_number=str, date=str, price=int),
        passengers=list[dict[str, Any]],
        payment_history=list[PaymentPart],
        total_baggages=int,
        nonfree_baggages=int,
    ),
)
"""The shape of `db.json`: each table by the ids of its records."""

# Looking up.


def get_user_details(db: TrialTables, user_id: str) -> Record:
    """Get a customer's name, address, membership, payment methods, and the ids of their reservations."""
    return db.get("users", user_id)


def get_reservation_details(db: TrialTables, reservation_id: str) -> Record:
    """Get a reservation: its flights, cabin, passengers, bags, insurance and payments."""
    return db.get("reservations", reservation_id)


def get_flight_status(db: TrialTables, flight_number: str, date: str) -> str:
    """Get the status of a flight on one day."""
    return str(_day(db, flight_number, date)["status"])


def list_all_airports(db: TrialTables) -> list[dict[str, str]]:
    """List all airports with their cities."""
    return [{"iata": code, "city": city} for code, city in AIRPORTS.items()]


def search_direct_flight(db: TrialTables, origin: str, destination: str, date: str) -> list[Record]:
    """Find the direct flights between two airports on one day that have seats to sell."""
    return [flight for flight in _departures(db, origin, date) if flight["destination"] == destination]


def search_onestop_flight(db: TrialTables, origin: str, destination: str, date: str) -> list[list[Record]]:
    """Find pairs of flights between two airports, the second one after the first has arrived. Returns: Pairs of flights."""
    return [
        [first | {"date": date}, second | {"date": day}]
        for first in _departures(db, origin, date)
        for day in [_arrival_day(first, date)]
        for second in _departures(db, first["destination"], day)
        if second["destination"] == destination
        and second["scheduled_departure_time_est"] >= first["scheduled_arrival_time_est"].removesuffix("+1")
    ]


# Changes.


def book_reservation(db: TrialTables, **booking: Unpack[NewReservation]) -> Record:
    """Book a reservation. What the payment methods pay has to be its price. Returns: The new reservation."""
    user, parts, cabin = db.edit("users", booking["user_id"]), booking["payment_methods"], booking["cabin"]
    identity = _first_free(NEW_RESERVATIONS, {str(one["reservation_id"]) for one in db.each("reservations")}, "reservations")
    people = len(booking["passengers"])
    segments = [_bookable(db, flight, cabin, people) for flight in booking["flights"]]
    price = people * (sum(segment["price"] for segment in segments) + (INSURANCE if booking["insurance"] == "yes" else 0))
    _pay(user, parts, price + BAG * booking["nonfree_baggages"])
    for flight in booking["flights"]:
        day = db.edit("flights", flight["flight_number"])["dates"][flight["date"]]
        day["available_seats"][cabin] -= people
    reservation = {
        **booking,
        "reservation_id": identity,
        "flights": segments,
        "payment_history": parts,
        "created_at": NOW,
        "status": None,
    }
    del reservation["payment_methods"]
    db.add("reservations", identity, reservation)
    user["reservations"].append(identity)
    return reservation


def _pay(user: Record, parts: Sequence[PaymentPart], price: int) -> None:
    certificates = []
    for part in parts:
        method = payment_method(user, part["payment_id"])
        if method["source"] in ("gift_card", "certificate") and method["amount"] < part["amount"]:
            raise RefusedCall(f"The balance of {part['payment_id']} is too low")
        certificates += [part["payment_id"]] if method["source"] == "certificate" else []
    if len({*certificates}) < len(certificates):
        raise RefusedCall("A certificate can be used once")
    paid = sum(part["amount"] for part in parts)
    if paid != price:
        raise RefusedCall(f"The price is {price}, and {paid} is paid")
    for part in parts:
        if part["payment_id"] in certificates:
            del user["payment_methods"][part["payment_id"]]
        elif (method := payment_method(user, part["payment_id"]))["source"] == "gift_card":
            method["amount"] -= part["amount"]


def cancel_reservation(db: TrialTables, reservation_id: str) -> Record:
    """Cancel a whole reservation, and refund what was paid. Returns: The reservation as it is now."""
    reservation = db.edit("reservations", reservation_id)
    paid = reservation["payment_history"]
    reservation["payment_history"] = paid + [part | {"amount": -part["amount"]} for part in paid]
    reservation["status"] = "cancelled"
    return reservation


def update_reservation_flights(
    db: TrialTables, reservation_id: str, cabin: Cabin, flights: list[FlightOfDay], payment_id: str
) -> Record:
    """Change the flights or the cabin of a reservation. Returns: The reservation as it is now."""
    reservation = db.edit("reservations", reservation_id)
    before, people = reservation["flights"], len(reservation["passengers"])
    stays = {(one["flight_number"], one["date"]): one for one in before} if cabin == reservation["cabin"] else {}
    after = [stays.get((flight["flight_number"], flight["date"])) or _bookable(db, flight, cabin, people) for flight in flights]
    _pay_difference(
        db, reservation, payment_id, people * (sum(one["price"] for one in after) - sum(one["price"] for one in before))
    )
    reservation |= {"flights": [dict(one) for one in after], "cabin": cabin}
    return reservation


def update_reservation_baggages(
    db: TrialTables, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> Record:
    """Change how many bags a reservation has; bags that are given up are not refunded. Returns: The reservation as it is now."""
    reservation = db.edit("reservations", reservation_id)
    _pay_difference(db, reservation, payment_id, BAG * max(0, nonfree_baggages - reservation["nonfree_baggages"]))
    reservation |= {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
    return reservation


def update_reservation_passengers(db: TrialTables, reservation_id: str, passengers: list[Passenger]) -> Record:
    """Change who flies on a reservation; their number stays. Returns: The reservation as it is now."""
    reservation = db.edit("reservations", reservation_id)
    if len(passengers) != len(reservation["passengers"]):
        raise RefusedCall("The number of passengers cannot be changed")
    reservation["passengers"] = [dict(one) for one in passengers]
    return reservation


def send_certificate(db: TrialTables, user_id: str, amount: int) -> str:
    """Send a customer a certificate, as a compensation."""
    methods = db.edit("users", user_id)["payment_methods"]
    identity = _first_free(NEW_CERTIFICATES, set(methods), "certificates")
    methods[identity] = {"source": "certificate", "id": identity, "amount": amount}
    return f"Certificate {identity} over {amount} was sent to {user_id}"


# Rules.


def _first_free(names: tuple[str, ...], taken: set[str], what: str) -> str:
    for name in names:
        if name not in taken:
            return name
    raise RefusedCall(f"No more than {len(names)} {what} can be made")


def _day(db: TrialTables, flight_number: str, date: str) -> Record:
    days = db.get("flights", flight_number)["dates"]
    return found(days, date, f"Flight {flight_number} does not fly on {date!r}")


def _bookable(db: TrialTables, flight: FlightOfDay, cabin: Cabin, people: int) -> Record:
    """The flight as a reservation has it. Raises NotFound and RefusedCall."""
    number, date = flight["flight_number"], flight["date"]
    day = _day(db, number, date)
    if day["status"] != "available":
        raise RefusedCall(f"Flight {number} on {date} is not available, but {day['status']}")
    if day["available_seats"][cabin] < people:
        raise RefusedCall(f"Flight {number} on {date} has {day['available_seats'][cabin]} seats in {cabin}")
    way = db.get("flights", number)
    price = day["prices"][cabin]
    return {"flight_number": number, "date": date, "price": price, "origin": way["origin"], "destination": way["destination"]}


def _departures(db: TrialTables, origin: str, date: str) -> Iterator[Record]:
    for flight in db.each("flights"):
        day: Any = flight["dates"].get(date)
        if flight["origin"] == origin and day is not None and day["status"] == "available":
            times = ("scheduled_departure_time_est", "scheduled_arrival_time_est")
            yield {
                **{name: flight[name] for name in ("flight_number", "origin", "destination", *times)},
                **{name: day[name] for name in ("status", "available_seats", "prices")},
            }


def _arrival_day(flight: Record, date: str) -> str:
    try:
        departure = datetime.date.fromisoformat(date)
    except ValueError:
        raise RefusedCall(f"{date!r} is no day, YYYY-MM-DD") from None
    return str(departure + datetime.timedelta(days=1)) if flight["scheduled_arrival_time_est"].endswith("+1") else date


def _pay_difference(db: TrialTables, reservation: Record, payment_id: str, amount: int) -> None:
    method = payment_method(db.edit("users", reservation["user_id"]), payment_id)
    if method["source"] == "certificate":
        raise RefusedCall("A certificate cannot pay for a change")
    if method["source"] == "gift_card":
        if method["amount"] < amount:
            raise RefusedCall(f"The balance of {payment_id} is too low")
        method["amount"] -= amount
    if amount:
        reservation["payment_history"].append({"payment_id": payment_id, "amount": amount})


CHANGES = (
    *(book_reservation, cancel_reservation, update_reservation_flights, update_reservation_baggages),
    *(update_reservation_passengers, send_certificate),
)
DOMAIN = Domain(
    name="airline",
    table="reservations",
    tables=TABLES,
    tools=(
        *(get_user_details, get_reservation_details, get_flight_status, list_all_airports, search_direct_flight),
        *(search_onestop_flight, *SERVICE, *CHANGES),
    ),
    writes=CHANGES,
    customer=True,
)
