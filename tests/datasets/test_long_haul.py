"""Long trails: valid at any size, told the same at every reading, and open to no shortcut."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.long_haul import archive as archives
from whichloop.datasets.long_haul.archive import ArchiveError, Measures, TrailArchive, VaultShut, archive_of

FACTS = st.lists(st.sampled_from(["booked", "price", "ticket", "seal"]), unique=True, max_size=2).map(tuple)


@st.composite
def measures(draw: st.DrawFn) -> Measures:
    """Any archive that a task may ask for."""
    lengths = draw(st.lists(st.integers(8, 20), min_size=1, max_size=3).map(tuple))
    moved = draw(st.sets(st.integers(2, lengths[0] - 1), max_size=3).map(lambda places: tuple(sorted(places))))
    seals = draw(st.sets(st.integers(0, lengths[0] - 2), max_size=3).map(lambda places: tuple(sorted(places))))
    facts = draw(FACTS)
    return Measures(
        key=draw(st.integers(0, 10**12)),
        lengths=lengths,
        facts=tuple(dict.fromkeys((*facts, "seal"))) if seals else facts,
        is_wordy=draw(st.booleans()),
        annex_every=draw(st.integers(0, 5)),
        moved=moved,
        is_lost=draw(st.booleans()),
        burnt=draw(st.sets(st.integers(0, len(lengths) - 1), max_size=1).map(tuple)),
        seals_at=seals,
    )


# --- laws of the archive ---


@settings(max_examples=cases(6), deadline=None)
@given(measures())
def test_a_trail_is_read_from_card_to_card(given_: Measures) -> None:
    archive = archive_of(given_)
    for number, trail in enumerate(archive.trails):
        code: str | None = trail[0].code
        for card in trail:
            assert code is not None
            read = archives.read_card(archive, archives.find_moved(archive, code)["moved_to"] if code in archive.moved else code)
            assert read["card"] == card.code
            assert read == archives.read_card(archive, card.code)  # each reading gives the same
            code = read["next_card"]
        if given_.is_lost and number == 0:
            with pytest.raises(ArchiveError, match="not in its drawer"):
                archives.read_card(archive, code or "")
            with pytest.raises(ArchiveError, match="does not know"):
                archives.find_moved(archive, code or "")
        else:
            assert code is None


@settings(max_examples=cases(6), deadline=None)
@given(measures())
def test_what_a_remark_or_an_old_edition_names_leads_astray(given_: Measures) -> None:
    archive = archive_of(given_)
    on_trails = {card.code for trail in archive.trails for card in trail}
    assert on_trails.isdisjoint(archive.others)
    for card in archive.trails[0]:
        assert archives.read_old_edition(archive, card.code)["next_card"] in archive.others
        remarks = archives.read_card(archive, card.code).get("remarks", "")
        assert not any(code in remarks for code in on_trails)


@settings(max_examples=cases(6), deadline=None)
@given(measures().filter(lambda given_: bool(given_.seals_at)), st.randoms(use_true_random=False))
def test_a_vault_opens_with_its_seals_and_no_others(given_: Measures, random: Any) -> None:
    archive = archive_of(given_)
    [(vault, (wanted, crates))] = archive.vaults.items()
    seals = sorted(wanted)
    random.shuffle(seals)
    assert archives.open_vault(archive, vault, seals) == {"vault": vault, "crates_inside": crates}
    for wrong in (seals[1:], [*seals, "kite-000"], [*seals[1:], "kite-000"]):
        with pytest.raises(VaultShut):
            archives.open_vault(archive, vault, wrong)


@pytest.fixture(scope="module")
def archive() -> TrailArchive:
    return archive_of(Measures(7, (12,), ("ticket", "seal"), seals_at=(3,)))


def test_what_is_not_there_is_said_in_one_sentence(archive: TrailArchive) -> None:
    for call, arguments, error, said in (
        (archives.read_card, ["ZZ-0000"], ArchiveError, "card ZZ-0000 is not in its drawer"),
        (archives.read_card, ["one"], ValueError, "'one' is no card's code; codes look like KX-4821"),
        (archives.read_old_edition, ["ZZ-0000"], ArchiveError, "the edition of 1911 has no card ZZ-0000"),
        (archives.find_moved, [archive.trails[0][0].code], ArchiveError, "the register of moved cards does not know"),
        (archives.redeem_ticket, ["T-1"], ArchiveError, "no ticket 'T-1' was ever issued"),
        (archives.open_vault, ["V-1", []], ArchiveError, "there is no vault 'V-1'"),
    ):
        with pytest.raises(error, match=said):
            call(archive, *arguments)
    for numbers in ([], [1.0] * 201):
        with pytest.raises(ValueError, match="there must be 1 to 200"):
            archives.add_up(numbers)
    for number in (math.inf, math.nan, 1e308):
        with pytest.raises(OverflowError, match=r"beyond ±1e\+15"):
            archives.add_up([number, number])


# --- the tasks ---
