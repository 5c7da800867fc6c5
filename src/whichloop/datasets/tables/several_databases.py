"""Stories that carry a result from one database to another."""

from __future__ import annotations

from whichloop.datasets.generating import Draft

from .databases import database
from .stories import Story, between, cell, numbers, template, top, total


@template
def town_of_a_meter(story: Story) -> Draft:
    energy, rentals, (first, last, period) = database("energy"), database("rentals"), story.period()
    meter = story.draw.choice(energy["meters"])
    shops = numbers(rentals.where("shops", "town", meter["town"]), "shop_id")
    bikes = {row["bike_id"] for row in rentals["bikes"] if row["shop_id"] in shops}
    begun = [row for row in between(rentals["rentals"], "started", first, last) if row["bike_id"] in bikes]
    story.call("See which databases there are.", "list_databases")
    story.look_at("energy", "meters")
    story.look_at("rentals", "shops", "rentals")
    town = story.ask("Find the meter's town.", "energy", "SELECT town FROM meters WHERE serial = ?", meter["serial"])
    query = (
        "SELECT SUM(r.days) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id JOIN shops s ON s.shop_id = b.shop_id"
        " WHERE s.town = ? AND r.started BETWEEN ? AND ?"
    )
    days = story.ask("Add up the rental days of the town's shops.", "rentals", query, cell(town), first, last)
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"Electricity meter {meter['serial']} hangs in some town. For how many days in all were bikes of that town's shops rented,"
        f" counting the rentals that began {period}?",
        cell(days),
        total(begun, "days"),
    )


@template
def town_of_a_film(story: Story) -> Draft:
    festival, clinic, (first, last, period) = database("festival"), database("clinic"), story.period()
    film = story.draw.choice(festival["films"])
    fullest = top(festival.where("screenings", "film_id", film["film_id"]), lambda row: row["tickets"])
    town = festival.where("venues", "venue_id", fullest["venue_id"])[0]["town"]
    doctors = numbers(clinic.where("doctors", "town", town), "doctor_id")
    earned = [row for row in between(clinic["visits"], "day", first, last) if row["doctor_id"] in doctors]
    story.call("See what databases there are to look into.", "list_databases")
    story.look_at("festival", "screenings", "venues")
    story.look_at("clinic", "visits", "doctors")
    query = (
        "SELECT v.town FROM screenings s JOIN films f ON f.film_id = s.film_id JOIN venues v ON v.venue_id = s.venue_id"
        " WHERE f.title = ? ORDER BY s.tickets DESC LIMIT 1"
    )
    found = story.ask("Find the town of the fullest screening.", "festival", query, film["title"])
    query = "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.town = ? AND v.day BETWEEN ? AND ?"
    fees = story.ask("Add up the fees of the doctors of that town.", "clinic", query, cell(found), first, last)
    return story.task(
        f"festival/film/{film['title']}",
        f'The film "{film["title"]}" filled most seats in some town\'s cinema. What fees did the doctors of that town earn at the'
        f" clinic {period} altogether?",
        cell(fees),
        total(earned, "fee"),
    )


@template
def around_town(story: Story) -> Draft:
    """Three databases, and two branches that part at the town and meet in the end."""
    energy, festival, rentals = database("energy"), database("festival"), database("rentals")
    first, last, period = story.period()
    meter = story.draw.choice(energy["meters"])
    venues = numbers(festival.where("venues", "town", meter["town"]), "venue_id")
    shops = numbers(rentals.where("shops", "town", meter["town"]), "shop_id")
    sold = [row for row in between(festival["screenings"], "day", first, last) if row["venue_id"] in venues]
    bikes = [row for row in rentals["bikes"] if row["shop_id"] in shops]
    dearest = top(bikes, lambda row: row["daily_rate"])
    story.call("See what all the databases are called.", "list_databases")
    story.look_at("energy", "meters")
    story.look_at("festival", "venues")
    story.look_at("rentals", "bikes")
    town = story.ask(
        "Find the town in which the meter hangs.", "energy", "SELECT town FROM meters WHERE serial = ?", meter["serial"]
    )
    query = "SELECT venue_id FROM venues WHERE town = ?"
    venue = story.ask("Find the cinema of that town.", "festival", query, cell(town))
    query = "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?"
    tickets = story.ask("Add up the tickets of that cinema.", "festival", query, cell(venue), first, last)
    query = (
        "SELECT b.bike_id FROM bikes b JOIN shops s ON s.shop_id = b.shop_id WHERE s.town = ? ORDER BY b.daily_rate DESC LIMIT 1"
    )
    bike = story.ask("Find the dearest bike in that town.", "rentals", query, cell(town))
    days = story.ask("Add up the days of that bike.", "rentals", "SELECT SUM(days) FROM rentals WHERE bike_id = ?", cell(bike))
    both = story.ask("Subtract days from tickets.", "rentals", "SELECT ? - ?", cell(tickets), cell(days))
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"There is one festival cinema in the town where electricity meter {meter['serial']} hangs. From the number of tickets"
        f" it sold {period}, subtract the number of days for which the bike with the highest daily rate of that town's shops has"
        " ever been rented. What is left?",
        cell(both),
        total(sold, "tickets") - total(rentals.where("rentals", "bike_id", dearest["bike_id"]), "days"),
    )
