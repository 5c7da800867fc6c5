"""Stories over one database.

The plan queries; the answer is worked out in Python from the rows that the database was made from.
"""

from __future__ import annotations

from whichloop.datasets.generating import Draft

from .databases import TOWNS, Row, database
from .stories import Story, between, cell, earliest, first_column, numbers, template, top, total

# Clinic


@template
def dearest_visit(story: Story) -> Draft:
    clinic, (first, last, period) = database("clinic"), story.period()
    patient = story.draw.choice(clinic["patients"])
    dearest = top(clinic.where("visits", "patient_id", patient["patient_id"]), lambda visit: visit["fee"])
    earned = between(clinic.where("visits", "doctor_id", dearest["doctor_id"]), "day", first, last)
    story.look_at("clinic", "patients", "visits")
    number = story.ask("Find the patient's number.", "clinic", "SELECT patient_id FROM patients WHERE name = ?", patient["name"])
    query = "SELECT doctor_id FROM visits WHERE patient_id = ? ORDER BY fee DESC LIMIT 1"
    doctor = story.ask("Find the doctor of the dearest visit.", "clinic", query, cell(number))
    query = "SELECT SUM(fee) FROM visits WHERE doctor_id = ? AND day BETWEEN ? AND ?"
    fees = story.ask("Add up the fees of that doctor.", "clinic", query, cell(doctor), first, last)
    return story.task(
        f"clinic/patient/{patient['name']}",
        f"In the database clinic, take the doctor of the dearest visit that {patient['name']} ever paid for."
        f" What do that doctor's fees {period} add up to, over all patients?",
        cell(fees),
        total(earned, "fee"),
    )


@template
def two_doctors(story: Story) -> Draft:
    clinic, (first, last, period) = database("clinic"), story.period()
    doctors = story.draw.sample(clinic["doctors"], 2)
    story.look_at("clinic", "doctors", "visits")
    query = "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.name = ? AND v.day BETWEEN ? AND ?"
    names = [doctor["name"] for doctor in doctors]
    sums = [story.ask(f"Add up the fees of {name}.", "clinic", query, name, first, last) for name in names]
    fees = [
        total(between(clinic.where("visits", "doctor_id", doctor["doctor_id"]), "day", first, last), "fee") for doctor in doctors
    ]
    apart = story.ask("Subtract one sum from the other.", "clinic", "SELECT abs(? - ?)", *map(cell, sums))
    return story.task(
        f"clinic/doctor/{names[0]}",
        f"Take the fees that the clinic's doctors {names[0]} and {names[1]} earned {period}."
        " By how much does the larger sum exceed the smaller one?",
        cell(apart),
        abs(fees[0] - fees[1]),
    )


# Shipping


@template
def fuel(story: Story) -> Draft:
    shipping, (first, last, period) = database("shipping"), story.period()
    port = story.draw.choice(shipping["ports"])
    arriving = between(shipping.where("voyages", "to_port", port["port_id"]), "departed", first, last)
    story.look_at("shipping", "voyages", "ports")
    query = (
        "SELECT SUM(v.fuel) FROM voyages v JOIN ports p ON p.port_id = v.to_port WHERE p.name = ? AND v.departed BETWEEN ? AND ?"
    )
    fuel = story.ask("Add up the fuel.", "shipping", query, port["name"], first, last)
    return story.task(
        f"shipping/port/{port['name']}",
        f"How much fuel did all voyages to {port['name']} that set off {period} burn together? The database is shipping.",
        cell(fuel),
        total(arriving, "fuel"),
    )


@template
def last_port(story: Story) -> Draft:
    shipping, (first, last, period) = database("shipping"), story.period()
    vessel = story.draw.choice(shipping["vessels"])
    sailed = between(shipping.where("voyages", "vessel_id", vessel["vessel_id"]), "departed", first, last)
    reached = top(sailed, lambda voyage: voyage["departed"])["to_port"]
    leaving = between(shipping.where("voyages", "from_port", reached), "departed", first, last)
    story.look_at("shipping", "vessels", "voyages")
    number = story.ask("Find the vessel's number.", "shipping", "SELECT vessel_id FROM vessels WHERE name = ?", vessel["name"])
    query = "SELECT to_port FROM voyages WHERE vessel_id = ? AND departed BETWEEN ? AND ? ORDER BY departed DESC LIMIT 1"
    port = story.ask("Find where its last voyage went.", "shipping", query, cell(number), first, last)
    query = "SELECT SUM(containers) FROM voyages WHERE from_port = ? AND departed BETWEEN ? AND ?"
    containers = story.ask("Add up the containers that left that port.", "shipping", query, cell(port), first, last)
    return story.task(
        f"shipping/vessel/{vessel['name']}",
        f"The database shipping knows where the {vessel['name']} went on the last of the voyages that she began {period}."
        " How many containers left that port in the same time, aboard any vessel?",
        cell(containers),
        total(leaving, "containers"),
    )


@template
def next_departure(story: Story) -> Draft:
    """The way goes from ship to port to ship to port: five queries, each from the one before."""
    shipping, (first, last, period) = database("shipping"), story.period()
    vessel = story.draw.choice(shipping["vessels"])
    sailed = between(shipping.where("voyages", "vessel_id", vessel["vessel_id"]), "departed", first, last)
    voyage = top(sailed, lambda row: row["containers"])
    later = [row for row in shipping.where("voyages", "from_port", voyage["to_port"]) if row["departed"] > voyage["departed"]]
    follower = earliest(later, "departed")
    story.look_at("shipping", "vessels", "voyages")
    number = story.ask(
        "Find the number of the first vessel.", "shipping", "SELECT vessel_id FROM vessels WHERE name = ?", vessel["name"]
    )
    query = (
        "SELECT to_port, departed FROM voyages WHERE vessel_id = ? AND departed BETWEEN ? AND ? ORDER BY containers DESC LIMIT 1"
    )
    fullest = story.ask("Find the fullest of its voyages.", "shipping", query, cell(number), first, last)
    query = "SELECT vessel_id, to_port FROM voyages WHERE from_port = ? AND departed > ? ORDER BY departed LIMIT 1"
    following = story.ask("Find the next voyage from there.", "shipping", query, cell(fullest), cell(fullest, 1))
    query = "SELECT SUM(fuel) FROM voyages WHERE vessel_id = ? AND to_port <> ?"
    fuel = story.ask("Add up the fuel of its other voyages.", "shipping", query, cell(following), cell(following, 1))
    query = "SELECT ? + capacity FROM vessels WHERE vessel_id = ?"
    whole = story.ask("Add the capacity of that vessel.", "shipping", query, cell(fuel), cell(following))
    others = [row for row in shipping.where("voyages", "vessel_id", follower["vessel_id"]) if row["to_port"] != follower["to_port"]]
    return story.task(
        f"shipping/vessel/{vessel['name']}",
        f"Of the voyages that the {vessel['name']} of the database shipping began {period}, one carried most containers. Take"
        " the first voyage of any vessel that departed, on a later day, from the port where that one arrived. Add up the fuel of"
        " all voyages of the vessel that made it, leaving out those to the port where it went then, and add the vessel's capacity."
        " What is the sum?",
        cell(whole),
        total(others, "fuel") + shipping.where("vessels", "vessel_id", follower["vessel_id"])[0]["capacity"],
    )


# School


@template
def best_course(story: Story) -> Draft:
    school, least, (year, *_) = database("school"), story.draw.integer(10, 80), story.period()
    teacher = story.draw.choice(school["teachers"])

    def points(course: Row) -> int:
        return sum(
            row["points"] for row in school.where("enrolments", "course_id", course["course_id"]) if row["year"] == int(year[:4])
        )

    best = top(school.where("courses", "teacher_id", teacher["teacher_id"]), points)
    good = [row for row in school.where("enrolments", "course_id", best["course_id"]) if row["points"] >= least]
    story.look_at("school", "teachers", "courses", "enrolments")
    number = story.ask("Find the teacher's number.", "school", "SELECT teacher_id FROM teachers WHERE name = ?", teacher["name"])
    query = (
        "SELECT c.course_id FROM courses c JOIN enrolments e ON e.course_id = c.course_id"
        " WHERE c.teacher_id = ? AND e.year = ? GROUP BY c.course_id ORDER BY SUM(e.points) DESC LIMIT 1"
    )
    course = story.ask("Find the course with most points in the year.", "school", query, cell(number), int(year[:4]))
    query = "SELECT SUM(points) FROM enrolments WHERE course_id = ? AND points >= ?"
    sum_of_points = story.ask("Add up the good results in that course.", "school", query, cell(course), least)
    return story.task(
        f"school/teacher/{teacher['name']}",
        f"{teacher['name']} teaches courses in the database school. Take the one whose students of {year[:4]} have most points in"
        f" sum. What is the sum of all results of {least} points or more in that course, of any year?",
        cell(sum_of_points),
        total(good, "points"),
    )


@template
def colleagues_rooms(story: Story) -> Draft:
    school, room = database("school"), story.draw.integer(101, 400)
    student = story.draw.choice(school["enrolments"])["student"]
    best = top(school.where("enrolments", "student", student), lambda row: row["points"])
    course = school.where("courses", "course_id", best["course_id"])[0]
    taught = school.where("courses", "teacher_id", course["teacher_id"])
    codes = sorted(row["code"] for row in taught if row["code"] != course["code"] and row["room"] >= room)
    story.look_at("school", "enrolments", "courses")
    query = "SELECT course_id FROM enrolments WHERE student = ? ORDER BY points DESC LIMIT 1"
    found = story.ask(f"Find the course in which {student} did best.", "school", query, student)
    query = "SELECT teacher_id, code FROM courses WHERE course_id = ?"
    teacher = story.ask("Find who teaches that course.", "school", query, cell(found))
    query = "SELECT code FROM courses WHERE teacher_id = ? AND code <> ? AND room >= ? ORDER BY code"
    others = story.ask("List the other courses of the same teacher.", "school", query, cell(teacher), cell(teacher, 1), room)
    return story.task(
        f"school/student/{student}",
        f"In the database school, {student} has one result with more points than any other. Give the codes of all other courses of"
        f" the teacher of that course that take place in room {room} or a room with a higher number.",
        first_column(others, codes),
        codes,
        "set",
    )


# Energy


@template
def peak_month(story: Story) -> Draft:
    energy, (first, last, period) = database("energy"), story.months()
    meter = story.draw.choice(energy["meters"])
    counted = between(energy.where("readings", "meter_id", meter["meter_id"]), "month", first, last)
    peak = top(counted, lambda row: row["kwh"])["month"]
    at_home = numbers(energy.where("meters", "town", meter["town"]), "meter_id")
    story.look_at("energy", "meters")
    story.call("See how readings are written down.", "sample_rows", database="energy", table="readings", limit=2)
    query = "SELECT meter_id, town FROM meters WHERE serial = ?"
    meter_facts = story.ask("Find the meter's number and town.", "energy", query, meter["serial"])
    query = "SELECT month FROM readings WHERE meter_id = ? AND month BETWEEN ? AND ? ORDER BY kwh DESC LIMIT 1"
    month = story.ask("Find its month of highest use.", "energy", query, cell(meter_facts), first, last)
    query = "SELECT SUM(r.kwh) FROM readings r JOIN meters m ON m.meter_id = r.meter_id WHERE m.town = ? AND r.month = ?"
    used = story.ask("Add up the town's use in that month.", "energy", query, cell(meter_facts, 1), cell(month))
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"Of the months {period}, take the one in which meter {meter['serial']} of the database energy counted most."
        " How many kWh did all meters of its town, this one included, count in that month?",
        cell(used),
        total([row for row in energy.where("readings", "month", peak) if row["meter_id"] in at_home], "kwh"),
    )


@template
def bill(story: Story) -> Draft:
    energy, (first, last, period) = database("energy"), story.months()
    meter = story.draw.choice(energy["meters"])
    price = energy.where("tariffs", "tariff_id", meter["tariff_id"])[0]["price"]
    counted = between(energy.where("readings", "meter_id", meter["meter_id"]), "month", first, last)
    story.look_at("energy", "meters", "tariffs", "readings")
    query = "SELECT meter_id, tariff_id FROM meters WHERE serial = ?"
    meter_facts = story.ask("Find the meter's number and tariff.", "energy", query, meter["serial"])
    rate = story.ask(
        "Find the price in that tariff.", "energy", "SELECT price FROM tariffs WHERE tariff_id = ?", cell(meter_facts, 1)
    )
    query = "SELECT SUM(kwh) FROM readings WHERE meter_id = ? AND month BETWEEN ? AND ?"
    used = story.ask("Add up the use of the meter.", "energy", query, cell(meter_facts), first, last)
    cost = story.ask("Multiply use and price.", "energy", "SELECT ? * ?", cell(used), cell(rate))
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"Meter {meter['serial']} of the database energy pays its tariff's price for each kWh. What does the use {period} cost?",
        cell(cost),
        price * total(counted, "kwh"),
    )


@template
def above_average(story: Story) -> Draft:
    energy, (first, last, period) = database("energy"), story.months()
    town, margin = story.draw.choice(TOWNS), story.draw.integer(5, 150)
    at_home = numbers(energy.where("meters", "town", town), "meter_id")
    readings = between(energy["readings"], "month", first, last)
    local = [row["kwh"] for row in readings if row["meter_id"] in at_home]
    above = sum((row["kwh"] - margin) * len(local) > sum(local) for row in readings if row["meter_id"] not in at_home)
    story.look_at("energy", "meters", "readings")
    joined = "FROM readings r JOIN meters m ON m.meter_id = r.meter_id"
    query = f"SELECT AVG(r.kwh) {joined} WHERE m.town = ? AND r.month BETWEEN ? AND ?"
    average = story.ask(f"Find the average use in {town}.", "energy", query, town, first, last)
    query = f"SELECT COUNT(*) {joined} WHERE m.town <> ? AND r.month BETWEEN ? AND ? AND r.kwh > ? + ?"
    count = story.ask("Count the higher readings elsewhere.", "energy", query, town, first, last, cell(average), margin)
    return story.task(
        f"energy/town/{town}",
        f"How many readings in the database energy, {period} and of meters outside of {town}, are more than {margin} kWh above"
        f" the average of the readings in {town} of that time?",
        cell(count),
        above,
    )


# Festival


@template
def fullest_house(story: Story) -> Draft:
    festival, (first, last, period) = database("festival"), story.period()
    film = story.draw.choice(festival["films"])
    fullest = top(festival.where("screenings", "film_id", film["film_id"]), lambda row: row["tickets"])
    screenings = between(festival.where("screenings", "venue_id", fullest["venue_id"]), "day", first, last)
    story.look_at("festival", "films", "screenings")
    number = story.ask("Find the film's number.", "festival", "SELECT film_id FROM films WHERE title = ?", film["title"])
    query = "SELECT venue_id FROM screenings WHERE film_id = ? ORDER BY tickets DESC LIMIT 1"
    venue = story.ask("Find the venue of its fullest screening.", "festival", query, cell(number))
    query = "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?"
    tickets = story.ask("Add up the tickets sold at that venue.", "festival", query, cell(venue), first, last)
    return story.task(
        f"festival/film/{film['title']}",
        f'The festival sold most tickets for one screening of "{film["title"]}" at one of its venues.'
        f" How many tickets, for all films, did that venue sell {period}?",
        cell(tickets),
        total(screenings, "tickets"),
    )


@template
def same_director(story: Story) -> Draft:
    festival, (first, last, period) = database("festival"), story.period()
    film = story.draw.choice(festival["films"])
    films = [row for row in festival.where("films", "director", film["director"]) if row["film_id"] != film["film_id"]]
    titles = sorted(
        row["title"] for row in films if between(festival.where("screenings", "film_id", row["film_id"]), "day", first, last)
    )
    story.look_at("festival", "films", "screenings")
    director = story.ask("Find who made the film.", "festival", "SELECT director FROM films WHERE title = ?", film["title"])
    query = (
        "SELECT DISTINCT f.title FROM films f JOIN screenings s ON s.film_id = f.film_id"
        " WHERE f.director = ? AND f.title <> ? AND s.day BETWEEN ? AND ? ORDER BY f.title"
    )
    others = story.ask("List what else of that director was shown.", "festival", query, cell(director), film["title"], first, last)
    return story.task(
        f"festival/director/{film['director']}",
        f'Which other films by the director of "{film["title"]}" did the festival show {period}? Give their titles.',
        first_column(others, titles),
        titles,
        "set",
    )


# Rentals and museum


@template
def longest_ride(story: Story) -> Draft:
    rentals, (first, last, period) = database("rentals"), story.period()
    customer = story.draw.choice(rentals["rentals"])["customer"]
    longest = top(rentals.where("rentals", "customer", customer), lambda row: row["days"])
    shop = rentals.where("bikes", "bike_id", longest["bike_id"])[0]["shop_id"]
    rates = {row["bike_id"]: row["daily_rate"] for row in rentals.where("bikes", "shop_id", shop)}
    begun = [row for row in between(rentals["rentals"], "started", first, last) if row["bike_id"] in rates]
    story.look_at("rentals", "rentals", "bikes")
    query = "SELECT bike_id FROM rentals WHERE customer = ? ORDER BY days DESC LIMIT 1"
    bike = story.ask("Find the bike of the longest rental.", "rentals", query, customer)
    owner = story.ask("Find the shop of that bike.", "rentals", "SELECT shop_id FROM bikes WHERE bike_id = ?", cell(bike))
    query = (
        "SELECT SUM(r.days * b.daily_rate) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id"
        " WHERE b.shop_id = ? AND r.started BETWEEN ? AND ?"
    )
    income = story.ask("Add up what that shop earned.", "rentals", query, cell(owner), first, last)
    return story.task(
        f"rentals/customer/{customer}",
        f"A shop in the database rentals owns the bike that {customer} kept longest in one go. What did that shop earn with the"
        f" rentals that began {period}? A rental costs the bike's daily rate for each day.",
        cell(income),
        sum(row["days"] * rates[row["bike_id"]] for row in begun),
    )


@template
def best_insured(story: Story) -> Draft:
    museum, (first, last, period) = database("museum"), story.period()
    artist = story.draw.choice(museum["artists"])
    works = numbers(museum.where("objects", "artist_id", artist["artist_id"]), "object_id")
    best = top([row for work in sorted(works) for row in museum.where("loans", "object_id", work)], lambda row: row["insured"])
    borrowed = between(museum.where("loans", "borrower", best["borrower"]), "started", first, last)
    story.call("See which tables the museum has.", "list_tables", database="museum")
    story.look_at("museum", "artists", "objects", "loans")
    number = story.ask("Find the artist's number.", "museum", "SELECT artist_id FROM artists WHERE name = ?", artist["name"])
    query = (
        "SELECT l.borrower FROM loans l JOIN objects o ON o.object_id = l.object_id"
        " WHERE o.artist_id = ? ORDER BY l.insured DESC LIMIT 1"
    )
    borrower = story.ask("Find who borrowed the best insured work.", "museum", query, cell(number))
    query = "SELECT SUM(insured) FROM loans WHERE borrower = ? AND started BETWEEN ? AND ?"
    insured = story.ask("Add up what that borrower insured.", "museum", query, cell(borrower), first, last)
    return story.task(
        f"museum/artist/{artist['name']}",
        f"Of all loans of works by {artist['name']} in the museum's database, one was insured for most. What do the insured sums of"
        f" all loans to the same borrower that started {period} add up to?",
        cell(insured),
        total(borrowed, "insured"),
    )
