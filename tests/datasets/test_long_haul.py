"""Long trails: valid at any size, told the same at every reading, and open to no shortcut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.long_haul import archive as archives
from whichloop.datasets.long_haul.archive import ArchiveError, TrailArchive, VaultShut

few = settings(max_examples=cases(6), deadline=None)
FACTS = st.lists(st.sampled_from(["booked", "price", "ticket", "seal"]), unique=True, max_size=2).map(tuple)


@st.composite
def archive(draw: st.DrawFn, least_seals: int = 0) -> TrailArchive:
    """Any archive that a task may ask for."""

    def places(low: int, high: int, least: int = 0) -> list[int]:
        return sorted(draw(st.sets(st.integers(low, high), min_size=least, max_size=3)))

    lengths = draw(st.lists(st.integers(8, 20), min_size=1, max_size=3))
    seals, facts = places(0, lengths[0] - 2, least_seals), draw(FACTS)
    return TrailArchive(
        key=draw(st.integers(0, 10**12)),
        lengths=lengths,
        facts=[*facts, "seal"] if seals else facts,
        is_wordy=draw(st.booleans()),
        annex_every=draw(st.integers(0, 5)),
        moved=places(2, lengths[0] - 1),
        is_lost=draw(st.booleans()),
        burnt=draw(st.lists(st.integers(0, len(lengths) - 1), max_size=1)),
        seals_at=seals,
    )


@few
@given(archive())
def test_a_trail_is_read_from_card_to_card(archive: TrailArchive) -> None:
    for number, trail in enumerate(archive.trails):
        code: str | None = trail[0].code
        for card in trail:
            assert code is not None
            read = archives.read_card(archive, archives.find_moved(archive, code)["moved_to"] if code in archive.moved_to else code)
            assert read["card"] == card.code
            assert read == archives.read_card(archive, card.code)  # each reading gives the same
            code = read["next_card"]
        if archive.is_lost and number == 0:
            with pytest.raises(ArchiveError, match="not in its drawer"):
                archives.read_card(archive, code or "")
            with pytest.raises(ArchiveError, match="does not know"):
                archives.find_moved(archive, code or "")
        else:
            assert code is None


@few
@given(archive())
def test_what_a_remark_or_an_old_edition_names_leads_astray(archive: TrailArchive) -> None:
    on_trails = {card.code for trail in archive.trails for card in trail}
    assert on_trails.isdisjoint(archive.others)
    for card in archive.trails[0]:
        assert archives.read_old_edition(archive, card.code)["next_card"] in archive.others
        remarks = archives.read_card(archive, card.code).get("remarks", "")
        assert not any(code in remarks for code in on_trails)


@few
@given(archive(least_seals=1), st.randoms(use_true_random=False))
def test_a_vault_opens_with_its_seals_and_no_others(archive: TrailArchive, random: Any) -> None:
    [(vault, (wanted, crates))] = archive.vaults.items()
    seals = sorted(wanted)
    random.shuffle(seals)
    assert archives.open_vault(archive, vault, seals) == {"vault": vault, "crates_inside": crates}
    for wrong in (seals[1:], [*seals, "kite-000"], [*seals[1:], "kite-000"]):
        with pytest.raises(VaultShut):
            archives.open_vault(archive, vault, wrong)
