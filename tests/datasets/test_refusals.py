"""What a suite's tools refuse, one row a case: by the name of the error and what it says, and without any change of the world."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import pytest

from tests.datasets.test_suites import suite_of
from whichloop.protocol import Toolbox, ToolCall, run_sync


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "error", "message"),
    [
        ("arithmetic", "divide", {"a": 7, "b": 0}, "ZeroDivisionError", "division by zero: 7 / 0 has no value"),
        ("arithmetic", "power", {"base": 10, "exponent": 10**9}, "ValueError", "beyond ±64"),
        ("arithmetic", "add", {"a": 1e300, "b": 1}, "OverflowError", "1e+300 is beyond"),
        ("arithmetic", "add", {"a": math.inf, "b": 1}, "ValueError", "inf is no finite number"),
        ("arithmetic", "round_to", {"number": 1, "digits": 99}, "ValueError", "digits is 99"),
        ("arithmetic", "convert_units", {"value": 1, "from_unit": "stone", "to_unit": "kg"}, "ValueError",
         "unknown unit 'stone'; known are length: mm"),
        ("arithmetic", "convert_units", {"value": 1, "from_unit": "km", "to_unit": "kg"}, "ValueError",
         "length has the units mm, cm, m, km"),
        ("agriculture", "field_info", {"field": "Nowhere"}, "UnknownName", "no field 'Nowhere', only"),
        ("agriculture", "crop_table", {"crop": "rice", "stage": "flowering"}, "UnknownName", "no crop 'rice', only"),
        ("agriculture", "market_price", {"product": "gold"}, "NotTraded", "no price for 'gold', only for"),
        ("agriculture", "convert_units", {"values": [1], "from_unit": "acre", "to_unit": "mm"}, "InvalidRequest",
         "acre is a area and mm a length"),
        ("agriculture", "growing_degree_days", {"highs_c": [20, 21], "lows_c": [10], "base_c": 8}, "InvalidRequest",
         "2 highs and 1 lows"),
        ("agriculture", "fertilizer_amount", {"needed_kg_ha": 9, "present_kg_ha": 1, "nitrogen_percent": 0, "hectares": 2},
         "InvalidRequest", "nitrogen_percent is 0"),
        ("agriculture", "calculate", {"operation": "sum", "numbers": [1e13]}, "InvalidRequest", "beyond ±1e+12"),
        ("ecommerce", "get_order", {"order_id": "S1"}, "NoSuchRecord", "no order S1"),
        ("ecommerce", "find_customers", {"text": " a "}, "Refused", "at least 3 characters"),
        ("events", "hold_seats", {"event_id": "E742", "date": "2026-09-13", "seats": 0}, "InvalidRequest", "between 1 and 20"),
        ("events", "hold_seats", {"event_id": "E742", "date": "2026-12-31", "seats": 2}, "NoSuchShow", "only on"),
        ("events", "book", {"name": "Jonas Moreau", "hold_id": "hold-E1-01-01-1"}, "UnknownHold", "no hold 'hold-E1-01-01-1'"),
        ("events", "cancel_booking", {"booking_code": "ABCD-1"}, "UnknownBooking", "no booking 'ABCD-1'"),
        ("long_haul", "read_card", {"code": "ZZ-0000"}, "ArchiveError", "card ZZ-0000 is not in its drawer"),
        ("long_haul", "open_vault", {"vault": "V-1", "seals": []}, "ArchiveError", "there is no vault 'V-1'"),
        ("long_haul", "add_up", {"numbers": []}, "ValueError", "there must be 1 to 200"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(name: str, tool: str, arguments: dict[str, Any], error: str, message: str) -> None:
    suite = suite_of(name)
    with closing(suite.open(suite.tasks[0])) as environment:
        before = environment.state()
        seen = run_sync(Toolbox(environment.tools).call(ToolCall(tool, arguments)))
        assert (seen.ok, seen.error_type) == (False, error)
        assert message in seen.data
        assert environment.state() == before
